#include "codegen/emit/emit_nest.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "codegen/emit/emit_bounds.h"
#include "codegen/emit/emit_scalar.h"
#include "codegen/emit/mentions.h"
#include "codegen/emit/nest_loops.h"
#include "codegen/graph/builder.h"
#include "codegen/program/fuse.h"
#include "codegen/program/shared_turns.h"

namespace mesh {

namespace {

constexpr size_t pointers_that_gcc_tells_apart = 3;  // with more in a loop, vectorising it takes a promise

struct NestEmitter {
  EmitContext& context;
  CppWriter& out;
  const Nest& nest;
  Scope scope;
  NestLoops loops;
  RowNames row_names;
  std::vector<std::string> rows;
  std::optional<SharedTurns> shared;  // the outermost loop's, by the threads of the rank
  /// Else an inner loop of which each thread makes a stretch, in all turns of those around it.
  struct Columns {
    size_t depth;
    int64_t enough;  // for a thread
    std::string first, last;
  };
  std::optional<Columns> columns;
  /// What shared turns add to: an OrderedSums, and what its pointers are called in a turn.
  struct Sums {
    std::string name, to, type;
    std::vector<std::string> pointers;
    bool exist() const { return !name.empty(); }
  } sums;

  NestEmitter(EmitContext& context, CppWriter& out, Scope& function, const Nest& nest)
      : context(context),
        out(out),
        nest(nest),
        scope(function),
        loops(context, nest, declare_bounds(context, out, scope, nest.bounds)),
        row_names(context, scope, loops),
        rows(nest.rows.size()) {
    share();
  }

  /// Decides what threads share.
  void share() {
    const std::vector<const NestLoop*> around = loops.around(0);
    if (around.empty()) return;
    shared = shared_turns(context.program, nest, around.front()->dims);
    if (shared && shared->adds && !sums_are_alike()) shared.reset();
    if (shared) {
      if (shared->adds) name_sums();
      return;
    }
    for (size_t depth = 1; !columns && depth < around.size(); ++depth)
      if (const auto enough = columns_for_a_thread(context.program, nest, around[depth]->dims))
        columns = Columns{depth, *enough, scope.fresh("begin"), scope.fresh("end")};
  }

  /// What threads share of the walk in which a pass stores: where nothing is around all passes, each is shared for
  /// itself.
  std::optional<SharedTurns> shared_in(size_t pass) const {
    if (nest.passes.size() == 1 && nest.rows.empty()) return shared;
    if (!loops.outer().empty() || loops.inner(pass).empty()) return {};
    Pass stores = nest.passes[pass];
    stores.reductions.clear();
    const auto turns = shared_turns(context.program, Nest{{}, {stores}, {}}, loops.inner(pass).front().dims);
    return turns && !turns->adds ? turns : std::nullopt;
  }

  /// visit(pass, accumulate)
  template <class Visit>
  void for_each_sum(const Visit& visit) const {
    for (size_t pass = 0; pass < nest.passes.size(); ++pass)
      for (const Pass::Accumulate& one : nest.passes[pass].accumulates) visit(pass, one);
  }

  /// Whether all are as many, begin alike, and have their elements counted from their address.
  bool sums_are_alike() const {
    const Pass::Accumulate* first = nullptr;
    bool all = true;
    for_each_sum([&](size_t pass, const Pass::Accumulate& sum) {
      if (first == nullptr) first = &sum;
      all = all && elements(context, sum.to) == elements(context, first->to) && sum.adds == first->adds &&
            loops.element(sum.to, pass).base == address(context, sum.to);
    });
    return all;
  }

  void name_sums() {
    sums.name = scope.fresh("sums", true);
    sums.to = scope.fresh("to");
    for_each_sum([&](size_t, const Pass::Accumulate& sum) {
      sums.type = cpp_type(context.program.buffer(sum.to.buffer).type);
      sums.pointers.push_back(scope.fresh("to_" + identifier(context.names.buffer(sum.to.buffer))));
      row_names.add_in(sum.to.buffer, sums.pointers.back());
    });
  }

  /// What one walk over a pass's inner loops leaves behind: declarations by depth, and the walk itself.
  struct Walk {
    size_t pass;
    Preludes preludes;
    std::vector<std::string> statements;         // in the innermost loop
    const Pass::Reduction* reduction = nullptr;  // what the walk reduces
    std::string reduced;                         // its expression
    std::string result;                          // its row value
  };

  std::string reduction_name(size_t pass, const Pass::Reduction& reduction) const {
    if (loops.inner(pass).empty()) return "value";
    if (reduction.arg) return "best";
    switch (reduction.reduce) {
      case Reduce::sum: return "total";
      case Reduce::max: return "largest";
      case Reduce::min: return "smallest";
    }
    return "total";
  }

  std::string accumulate(const Pass::Accumulate& one, const std::string& to, const std::string& text) const {
    if (one.reduce == Reduce::sum) return to + " += " + text + ";";
    return to + " = meshrt::" + (one.reduce == Reduce::max ? "maximum(" : "minimum(") + to + ", " + text + ");";
  }

  /// A walk that stores and accumulates (`writes`), reduces one thing, or both.
  Walk walk(size_t pass_index, const Pass::Reduction* reduction, bool writes) {
    const Pass& pass = nest.passes[pass_index];
    Walk result{pass_index, Preludes(loops.around(pass_index).size() + 1), {}, reduction, "", ""};
    row_names.leave_loops();
    ScalarEmitter scalars(context, scope, loops, row_names, nest, pass_index, rows);
    std::vector<int> targets;
    if (writes) {
      for (const Pass::Store& store : pass.stores) targets.push_back(store.scalar);
      for (const Pass::Accumulate& one : pass.accumulates) targets.push_back(one.scalar);
    }
    if (reduction != nullptr) targets.push_back(reduction->scalar);
    scalars.generate(targets, result.preludes);
    if (writes) {
      for (const Pass::Store& store : pass.stores) {
        const bool returns = context.returned && storage(context.program, store.to.buffer) == *context.returned;
        const std::string to = returns ? "return " : row_names.reference(store.to, pass_index, result.preludes) + " = ";
        result.statements.push_back(to + scalars.text(store.scalar) + ";");
      }
      for (const Pass::Accumulate& one : pass.accumulates)
        result.statements.push_back(
            accumulate(one, row_names.reference(one.to, pass_index, result.preludes), scalars.text(one.scalar)));
    }
    if (reduction != nullptr) {
      result.reduced = scalars.text(reduction->scalar);
      // One value that has a name already needs no other.
      const bool named = loops.inner(pass_index).empty() && result.reduced.find_first_of(" .([-") == std::string::npos;
      result.result =
          named ? result.reduced : scope.fresh(reduction_name(pass_index, *reduction), loops.outer().empty());
      rows[static_cast<size_t>(reduction->row)] = result.result;
    }
    return result;
  }

  /// The walks of a pass: one for each reduction; stores ride with the only reduction, else have a walk of their own.
  std::vector<Walk> walks(size_t pass_index) {
    const Pass& pass = nest.passes[pass_index];
    const bool writes = !pass.stores.empty() || !pass.accumulates.empty();
    std::vector<Walk> result;
    if (pass.reductions.size() == 1 && !pass.reductions.front().arg) {
      result.push_back(walk(pass_index, &pass.reductions.front(), writes));
      return result;
    }
    for (const Pass::Reduction& reduction : pass.reductions) result.push_back(walk(pass_index, &reduction, false));
    if (writes) result.push_back(walk(pass_index, nullptr, true));
    return result;
  }

  bool vectorises_alone(const Pass& pass) const {
    std::vector<BufferId> buffers;
    for (const Access* access : accesses_of(pass))
      if (std::ranges::find(buffers, access->buffer) == buffers.end()) buffers.push_back(access->buffer);
    return buffers.size() <= pointers_that_gcc_tells_apart;
  }

  /// Whether every write of the pass goes to another element in each turn of the innermost loop, which reads none that
  /// it has written.
  bool independent(size_t pass_index) const {
    const Pass& pass = nest.passes[pass_index];
    if (reads_own_stores(context.program, pass)) return false;
    const auto moves = [&](const Access& to) { return !loops.element(to, pass_index).index.empty(); };
    return std::ranges::all_of(pass.stores, [&](const auto& store) { return moves(store.to); }) &&
           std::ranges::all_of(pass.accumulates, [&](const auto& one) { return moves(one.to); });
  }

  /// What opens a loop, and what closes it behind its brace: `for (...)`, or `meshrt::each(rows, 64, [&](int64_t row)`
  /// and `);` where the threads of the rank share the turns of the outermost one.
  struct Opening {
    std::string head, end;
    bool names_sums = true;  // where it has some
    bool is_shared() const { return !end.empty(); }
  };
  Opening opening(const NestLoop& loop, size_t depth, const std::optional<SharedTurns>& shared) const {
    if (columns && depth == columns->depth)
      return {fmt::format("for (int64_t {0} = {1}; {0} < {2}; ++{0})", loop.index, columns->first, columns->last), ""};
    if (depth > 0 || !shared) return {loop.head(), ""};
    if (!shared->adds)
      return {fmt::format("meshrt::each({}, {}, [&](int64_t {})", loop.end(), shared->enough, loop.index), ");"};
    const std::string head =
        fmt::format("{}.each({}, {}, [&](int64_t {}", sums.name, loop.end(), shared->enough, loop.index);
    const bool named = sums_are_named_in(head);
    return {head + (named ? pointers() : fmt::format(", {}* const* {}", sums.type, sums.to)) + ")", ");", named};
  }

  std::string pointers() const {
    std::string all;
    for (const std::string& name : sums.pointers) all += ", " + sums.type + "* " + name;
    return all;
  }

  /// Whether the head of the loop has room for all pointers.
  bool sums_are_named_in(const std::string& head) const {
    return 2 * static_cast<size_t>(out.depth()) + head.size() + pointers().size() + 3 <= CppWriter::width;
  }

  /// Where a turn of the outermost loop begins.
  void print_pointers(const Opening& opened) {
    for (size_t k = 0; k < sums.pointers.size() && !opened.names_sums; ++k)
      out.line(fmt::format("{}* const {} = {}[{}];", sums.type, sums.pointers[k], sums.to, k));
  }

  void print_loops(const Walk& walk, size_t depth) {
    const std::vector<const NestLoop*> around = loops.around(walk.pass);
    const std::vector<std::string>& prelude = walk.preludes[depth];
    if (depth == around.size()) {
      for (const std::string& line : prelude) out.line(line);
      for (const std::string& line : walk.statements) out.line(line);
      return;
    }
    for (const std::string& line : prelude) out.line(line);
    const Opening opened = opening(*around[depth], depth, shared_in(walk.pass));
    const bool innermost = depth + 1 == around.size();
    if (innermost && !opened.is_shared() && !vectorises_alone(nest.passes[walk.pass]) && independent(walk.pass))
      out.directive("#pragma GCC ivdep");
    if (innermost && opened.names_sums && walk.preludes[depth + 1].empty() && walk.statements.size() == 1) {
      const std::string& statement = walk.statements.front();
      return opened.is_shared() ? out.lambda(opened.head, statement, opened.end) : out.one(opened.head, statement);
    }
    const auto block = out.block(opened.head, opened.end);
    if (depth == 0 && sums.exist()) print_pointers(opened);
    print_loops(walk, depth + 1);
  }

  /// `const float total = meshrt::sum_of<float>(n, [&](int64_t i) { ... return x; });`, in a `for` where the reduction
  /// runs over several loops.
  void print_reduction(const Walk& walk) {
    const size_t first = loops.outer().size();
    const std::vector<const NestLoop*> around = loops.around(walk.pass);
    for (const std::string& line : walk.preludes[first]) out.line(line);
    const std::string type = cpp_type(nest.rows[static_cast<size_t>(walk.reduction->row)]);
    const std::string value_type =
        cpp_type(nest.passes[walk.pass].scalars[static_cast<size_t>(walk.reduction->scalar)].type);
    const std::string kind = meshrt::name_of(walk.reduction->reduce);
    const std::string declared = "const " + type + " " + walk.result + " = ";
    const size_t inner = around.size() - first;
    if (inner == 0) {  // one value: a name for it
      for (const std::string& line : walk.statements) out.line(line);
      if (walk.result == walk.reduced) return;
      return out.line(declared + walk.reduced + ";");
    }
    const std::string lambda =
        "[&](int64_t" + (uses(walk, around.back()->index) ? " " + around.back()->index : "") + ")";
    const std::string& extent = around.back()->end();
    if (walk.reduction->arg && walk.reduction->reduce != Reduce::max)
      internal_error("the index of a smallest element reached the emitter");
    if (!walk.reduction->arg && reduces_in_blocks(context.program, nest, nest.passes[walk.pass]))
      return print_in_blocks(walk, fmt::format("{}meshrt::shared_{}<{}>(", declared, kind, type), lambda);
    if (inner == 1) {
      if (!walk.reduction->arg)
        return print_lambda(walk, declared + "meshrt::" + kind + "_of<" + type + ">(" + extent + ", " + lambda, ");");
      const std::string begin = context.names.begin(around.back()->dims.front());
      const std::string global = begin == "0" ? "" : begin + " + ";
      return print_lambda(walk,
                          "const auto " + walk.result + " = static_cast<" + type + ">(" + global + "meshrt::arg" +
                              kind + "_of<" + value_type + ">(" + extent + ", " + lambda,
                          "));");
    }
    if (walk.reduction->arg) internal_error("the index of a largest element over several dims reached the emitter");
    const std::string lanes = scope.fresh(walk.result + "_lanes", loops.outer().empty());
    out.line("meshrt::Lanes<" + type + ", Reduce::" + kind + "> " + lanes + ";");
    {
      std::vector<std::unique_ptr<CppWriter::Block>> blocks;
      for (size_t depth = first; depth + 1 < around.size(); ++depth) {
        blocks.push_back(std::make_unique<CppWriter::Block>(out, around[depth]->head(), ""));
        for (const std::string& line : walk.preludes[depth + 1]) out.line(line);
      }
      print_lambda(walk, lanes + ".add(" + extent + ", " + lambda, ");");
      while (!blocks.empty()) blocks.pop_back();
    }
    out.line(declared + lanes + ".combine();");
  }

  /// `const float total = meshrt::shared_sum<float>(n, [&](int64_t i) { ... return x; });`, of several loops with the
  /// innermost one in a lambda for a row: `(rows, cols, [&](int64_t r, auto& lanes) { lanes.add(cols, ...); });`.
  void print_in_blocks(const Walk& walk, const std::string& call, const std::string& lambda) {
    const std::vector<const NestLoop*> around = loops.around(walk.pass);
    const std::string& cols = around.back()->end();
    if (around.size() == 1) return print_lambda(walk, call + cols + ", " + lambda, ");");
    const auto times = [](const std::string& product, const std::string& factor) {
      const bool simple = factor.find_first_of(" ?") == std::string::npos;
      return (product.empty() ? "" : product + " * ") + (simple ? factor : "(" + factor + ")");
    };
    const size_t last = around.size() - 1;
    std::string row = around.front()->index;
    Scope inside(scope);
    if (last > 1) row = inside.fresh("turn");
    else if (!uses_anywhere(walk, row)) row.clear();
    std::string rows;
    for (size_t depth = 0; depth < last; ++depth)
      rows = last == 1 ? around[depth]->end() : times(rows, around[depth]->end());
    const std::string lanes = inside.fresh("lanes");
    const auto head = [&] {
      return fmt::format("{}{}, {}, [&](int64_t{}{}, auto& {})", call, rows, cols, row.empty() ? "" : " ", row, lanes);
    };
    const std::string add = lanes + ".add(" + cols + ", " + lambda;
    const bool one_statement =
        walk.statements.empty() && last == 1 && walk.preludes[1].empty() && walk.preludes[2].empty();
    if (one_statement && out.short_lambda(head(), add + " { return " + walk.reduced + "; });", ");")) return;
    const size_t width = 2 * static_cast<size_t>(out.depth()) + head().size() + 2;
    if (width > CppWriter::width) {  // a name, so that it is one line
      const std::string name = scope.fresh("rows", loops.outer().empty());
      out.line("const int64_t " + name + " = " + rows + ";");
      rows = name;
    }
    const auto block = out.block(head(), ");");
    for (size_t depth = 0; depth < last && last > 1; ++depth) {  // the indices of a row
      if (!uses_anywhere(walk, around[depth]->index)) continue;
      std::string apart;
      for (size_t within = depth + 1; within < last; ++within) apart = times(apart, around[within]->end());
      std::string index = row;
      if (!apart.empty()) index += " / " + (last - depth > 2 ? "(" + apart + ")" : apart);
      if (depth > 0) index += " % " + times("", around[depth]->end());
      out.line("const int64_t " + around[depth]->index + " = " + index + ";");
    }
    for (size_t depth = 0; depth + 1 < around.size(); ++depth)
      for (const std::string& line : walk.preludes[depth + 1]) out.line(line);
    print_lambda(walk, add, ");");
  }

  static bool uses(const Walk& walk, const std::string& index) {
    const auto line_uses = [&](const std::string& line) { return mentions(line, index); };
    return line_uses(walk.reduced) || std::ranges::any_of(walk.statements, line_uses) ||
           std::ranges::any_of(walk.preludes.back(), line_uses);
  }

  static bool uses_anywhere(const Walk& walk, const std::string& index) {
    const auto line_uses = [&](const std::string& line) { return mentions(line, index); };
    return uses(walk, index) ||
           std::ranges::any_of(walk.preludes, [&](const auto& lines) { return std::ranges::any_of(lines, line_uses); });
  }

  void print_lambda(const Walk& walk, const std::string& head, const std::string& end) {
    const std::vector<std::string>& prelude = walk.preludes.back();
    const std::string last = "return " + walk.reduced + ";";
    if (walk.statements.empty() && prelude.empty()) {
      out.lambda(head, last, end);
      return;
    }
    const auto block = out.block(head, end);
    for (const std::string& line : prelude) out.line(line);
    for (const std::string& line : walk.statements) out.line(line);
    out.line(last);
  }

  /// Before the loops: what is accumulated begins as nothing, unless it is added to what is there.
  void begin_sums() {
    std::string all;
    bool onto = false;
    for_each_sum([&](size_t, const Pass::Accumulate& one) {
      const std::string at = address(context, one.to), count = elements(context, one.to);
      const Type type = context.program.buffer(one.to.buffer).type;
      all += (all.empty() ? count : "") + ", " + at;
      onto = one.adds;
      if (!sums.exist() && !one.adds)
        out.line("std::fill_n(" + at + ", " + count + ", " + literal(neutral(one.reduce), type) + ");");
    });
    if (sums.exist())
      out.line("const auto " + sums.name + " = meshrt::sums_" + (onto ? "onto(" : "from_zero(") + all + ");");
  }

  void print() {
    std::vector<std::vector<Walk>> all;
    for (size_t pass = 0; pass < nest.passes.size(); ++pass) all.push_back(walks(pass));
    begin_sums();
    std::vector<std::unique_ptr<CppWriter::Block>> blocks;
    if (columns)
      blocks.push_back(std::make_unique<CppWriter::Block>(
          out,
          fmt::format("meshrt::share({}, {}, [&](int64_t {}, int64_t {})", loops.around(0)[columns->depth]->end(),
                      columns->enough, columns->first, columns->last),
          ");"));
    for (size_t depth = 0; depth < loops.outer().size(); ++depth) {
      for (const auto& pass : all)
        for (const Walk& walk : pass)
          for (const std::string& line : walk.preludes[depth]) out.line(line);
      const Opening opened = opening(loops.outer()[depth], depth, shared);
      blocks.push_back(std::make_unique<CppWriter::Block>(out, opened.head, opened.end));
      if (depth == 0 && sums.exist()) print_pointers(opened);
      if (depth == 0 && context.polls && !sums.exist()) out.line("meshrt::poll();");  // sums do so themselves
    }
    for (const auto& pass : all) {
      for (const Walk& walk : pass) {
        if (walk.reduction != nullptr) print_reduction(walk);
        else print_loops(walk, loops.outer().size());
      }
    }
    while (!blocks.empty()) blocks.pop_back();
  }
};

}  // namespace

void emit_nest(EmitContext& context, CppWriter& out, Scope& scope, const Nest& nest) {
  NestEmitter(context, out, scope, nest).print();
}

}  // namespace mesh
