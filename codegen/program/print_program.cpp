#include "codegen/program/print_program.h"

#include <fmt/format.h>

#include <cstdlib>
#include <functional>

#include "codegen/graph/band.h"
#include "codegen/program/branches.h"
#include "codegen/program/extent.h"
#include "codegen/program/step.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

template <class Range, class Text>
std::string list(const Range& items, Text text, const char* between = ", ") {
  std::string result;
  for (const auto& item : items) result += (result.empty() ? "" : between) + text(item);
  return result;
}

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program), dim_of_loop_(dims_of_loops(program)) {}

  std::string whole() {
    out_ = fmt::format("program {} on {}\n", graph().model, mesh());
    out_ += fmt::format("arena {} bytes, own {} bytes\n", program_.memory.arena, program_.memory.own);
    for (const auto& [kind, bytes] : program_.memory.by_kind)
      out_ += fmt::format("  {} {} bytes\n", name_of(kind), bytes);
    out_ += "buffers\n";
    for (const Buffer& buffer : program_.buffers) out_ += "  " + line(buffer) + "\n";
    for (const Routine& routine : program_.routines) {
      out_ += "routine " + routine.name;
      if (routine.after_forward_of)
        out_ += fmt::format(", after the forward steps of {}", program_.routines[*routine.after_forward_of].name);
      out_ += "\n";
      for (const RoutineBound& bound : routine.bounds)
        out_ += fmt::format("  of {} ({}) the elements up to {}\n", dim(bound.dim), graph().dim(bound.dim).size,
                            program_.buffer(bound.last).name);
      print(routine.steps);
    }
    for (const EntryPoint& entry : program_.entries) print(entry);
    return std::move(out_);
  }

  std::string type(const Buffer& buffer) const {
    const std::string element = meshrt::name_of(buffer.type);
    return buffer.dims.empty() ? element : element + "[" + local_dims(buffer.dims) + "]";
  }

  std::string access(const Access& at) const {
    if (!at.buffer) return "nothing";
    const Buffer& buffer = program_.buffer(at.buffer);
    std::string text = buffer.name;
    if (!at.turns.empty()) text += "[" + list(at.turns, [&](const TurnIndex& turn) { return turn_index(turn); }) + "]";
    if (at.maps.empty()) return text;
    return text + "[" + list(at.maps, [&](const IndexMap& map) { return index_map(buffer, map); }) + "]";
  }

  /// "layer", "2", "(time + 1) mod 3"
  std::string turn_index(const TurnIndex& at) const {
    if (!at.loop) return fmt::format("{}", at.offset);
    if (at.period == 0 && at.offset == 0) return dim_of(at.loop);
    const std::string turn = at.offset == 0 ? dim_of(at.loop) : fmt::format("({} + {})", dim_of(at.loop), at.offset);
    return at.period == 0 ? turn : fmt::format("{} mod {}", turn, at.period);
  }

  /// "token = 1 + patch", "patch = (token - 1) / 2 else 0"
  std::string index_map(const Buffer& buffer, const IndexMap& map) const {
    std::string element = map.turn ? turn_index(map.turn) : fmt::format("{}", map.begin);
    if (map.along) {
      element = map.step == 1 ? dim(map.along) : fmt::format("{} * {}", map.step, dim(map.along));
      if (map.begin != 0) element += fmt::format(" {} {}", map.begin < 0 ? '-' : '+', std::abs(map.begin));
    }
    if (map.every != 1) element = fmt::format("({}) / {}", element, map.every);
    const std::string outside = map.outside ? fmt::format(" else {}", *map.outside) : "";
    return dim(buffer.dims[map.position].dim) + " = " + element + outside;
  }

  std::string summary(const Step& step) const {
    return std::visit([&](const auto& what) { return text(what); }, step.what);
  }

 private:
  const Graph& graph() const { return program_.sharded.graph; }
  std::string dim(DimId id) const { return id ? graph().dim(id).name : "?"; }
  std::string dim_of(LoopId loop) const {
    return loop.index < dim_of_loop_.size() ? dim(dim_of_loop_[loop.index]) : "?";
  }
  std::string axis(AxisId id) const { return program_.sharded.layout.mesh.axes[id].name; }
  std::string axes(const std::vector<AxisId>& of) const { return axes_text(program_.sharded.layout.mesh, of, "*"); }
  std::string names(const std::vector<DimId>& dims) const {
    return list(dims, [&](DimId id) { return dim(id); });
  }
  std::string local_dims(std::span<const LocalDim> dims) const {
    return list(dims, [&](const LocalDim& local) {
      return dim(local.dim) + (local.placement.axes.empty() ? "" : "/") + axes(local.placement.axes) +
             deal_text(local.placement.deal) + margin(local.placement.margin);
    });
  }

  static std::string margin(const Margin& margin) {
    return margin ? fmt::format(" -{}+{}", margin.before, margin.after) : "";
  }

  std::string mesh() const {
    const MeshShape& shape = program_.sharded.layout.mesh;
    return shape.name + " {" +
           list(shape.axes, [](const MeshAxis& a) { return fmt::format("{}: {}", a.name, a.size); }) + "}";
  }

  std::string line(const Buffer& buffer) const {
    std::string text = fmt::format("{} : {} {}", buffer.name, type(buffer), name_of(buffer.kind));
    if (buffer.view_of) return text + " view of " + program_.buffer(buffer.view_of).name;
    text += buffer.space == Space::arena ? " arena" : " own";
    if (buffer.offset >= 0) text += fmt::format(" @{}", buffer.offset);
    return text;
  }

  void print(const EntryPoint& entry) {
    const auto name = [&](BufferId id) { return program_.buffer(id).name; };
    out_ += fmt::format("entry {}: {}\n", entry.name, entry.meaning);
    if (!entry.carried.empty())
      out_ += fmt::format("  carries {}\n", list(entry.carried, [&](const auto& one) { return name(one.buffer); }));
    if (!entry.results.empty()) out_ += fmt::format("  gives {}\n", list(entry.results, name));
    for (const EntryPoint::Output& output : entry.outputs)
      out_ += fmt::format("  output {} = {}\n", output.name, name(output.buffer));
    for (const auto& [wanted, buffer] : entry.wanted) out_ += fmt::format("  wanted {} = {}\n", wanted, name(buffer));
  }

  void put(int depth, const std::string& text) {
    out_ += std::string(static_cast<size_t>(2 * depth), ' ') + text + "\n";
  }

  void print(const Steps& steps) {
    int depth = 1;
    const auto line = [&](const Step& step) {
      put(depth, summary(step) + (step.part == Part::forward ? "" : fmt::format("   # {}", name_of(step.part))));
      if (const auto* nest = std::get_if<Nest>(&step.what)) print(*nest, depth + 1);
    };
    walk(
        steps, line, [&](const Step&, const Steps&) { ++depth; }, [&](const Step&, const Steps&) { --depth; });
  }

  // ---- nests

  void print(const Nest& nest, int depth) {
    for (const Pass& pass : nest.passes) {
      put(depth, pass.inner.empty() ? "once" : "over " + local_dims(pass.inner));
      print(pass, depth + 1);
    }
  }

  void print(const Pass& pass, int depth) {
    std::vector<int> uses(pass.scalars.size());
    for (const Scalar& scalar : pass.scalars)
      if (const auto* apply = std::get_if<Scalar::Apply>(&scalar.what))
        for (int operand : apply->operands) ++uses[static_cast<size_t>(operand)];
    // An entry that several others read gets a name, the rest are written where they are read.
    const std::function<std::string(int, bool)> expression = [&](int index, bool define) -> std::string {
      const Scalar& scalar = pass.scalars[static_cast<size_t>(index)];
      const auto* apply = std::get_if<Scalar::Apply>(&scalar.what);
      if (!apply) return leaf(scalar);
      if (uses[static_cast<size_t>(index)] > 1 && !define) return fmt::format("t{}", index);
      const std::string name =
          apply->function == MapFunction::cast ? meshrt::name_of(scalar.type) : std::string(info(apply->function).name);
      return name + "(" + list(apply->operands, [&](int operand) { return expression(operand, false); }) + ")";
    };
    for (size_t i = 0; i < pass.scalars.size(); ++i)
      if (uses[i] > 1 && std::holds_alternative<Scalar::Apply>(pass.scalars[i].what))
        put(depth, fmt::format("t{} = {}", i, expression(static_cast<int>(i), true)));
    for (const Pass::Reduction& r : pass.reductions)
      put(depth, fmt::format("row{} = {}{}({})", r.row, r.arg ? "arg" : "", meshrt::name_of(r.reduce),
                             expression(r.scalar, false)));
    for (const Pass::Accumulate& a : pass.accumulates)
      put(depth, fmt::format("{} {}{} {}", access(a.to), a.adds ? "also " : "", meshrt::name_of(a.reduce),
                             "<- " + expression(a.scalar, false)));
    for (const Pass::Store& s : pass.stores) put(depth, access(s.to) + " = " + expression(s.scalar, false));
  }

  std::string leaf(const Scalar& scalar) const {
    struct Visit {
      const Printer& in;
      std::string operator()(const Scalar::Load& load) const { return in.access(load.access); }
      std::string operator()(const Scalar::Literal& literal) const { return fmt::format("{}", literal.value); }
      std::string operator()(const Scalar::Index& index) const { return "position[" + in.dim(index.dim) + "]"; }
      std::string operator()(const Scalar::Turn& turn) const { return "turn[" + in.dim_of(turn.loop) + "]"; }
      std::string operator()(const Scalar::StepNumber&) const { return "step"; }
      std::string operator()(const Scalar::Rate& rate) const { return "rate(" + to_string(rate.rate) + ")"; }
      std::string operator()(const Scalar::Random& random) const {
        std::vector<DimId> dims;
        for (const auto& counted : random.dims) dims.push_back(counted.dim);
        return fmt::format("{}({}[{}]{})", name_of(random.distribution), random.path, in.names(dims),
                           random.of_sample > 0 ? " by set" : "");
      }
      std::string operator()(const Scalar::Apply&) const { return ""; }
      std::string operator()(const Scalar::Row& row) const { return fmt::format("row{}", row.row); }
    };
    return std::visit(Visit{*this}, scalar.what);
  }

  // ---- one line for each kind of step

  std::string bounds(const std::vector<LoopBound>& all) const {
    std::string text;
    for (const LoopBound& bound : all) text += fmt::format(", {} <= {}", dim(bound.along.dim), access(bound.last));
    return text;
  }
  std::string text(const Nest& nest) const {
    return (nest.outer.empty() ? "nest" : "nest for " + local_dims(nest.outer)) + bounds(nest.bounds);
  }
  std::string text(const ProductStep& p) const {
    std::string text = fmt::format(
        "product {} {} {} * {}, rows [{}] inner [{}] cols [{}]", access(p.c), p.accumulate ? "+=" : "=", access(p.a),
        p.rounds_b ? "bf16(" + access(p.b) + ")" : access(p.b), names(p.rows), names(p.inner), names(p.cols));
    if (!p.batch.empty()) text += " for each [" + names(p.batch) + "]";
    if (p.epilogue.bias) text += ", + " + access(*p.epilogue.bias);
    if (p.epilogue.activation) text += fmt::format(", {}", info(*p.epilogue.activation).name);
    if (p.epilogue.slope) text += " (slope to " + access(*p.epilogue.slope) + ")";
    if (p.epilogue.times) text += ", * " + access(*p.epilogue.times);
    if (p.epilogue.plus) text += ", + " + access(*p.epilogue.plus);
    if (p.epilogue.rounded) text += ", rounded to " + access(*p.epilogue.rounded);
    if (p.epilogue.rounded_alone) text += " alone";
    if (p.column_sum) text += (p.accumulate ? ", column sum added to " : ", column sum to ") + access(*p.column_sum);
    return text + bounds(p.bounds);
  }
  std::string text(const AttentionStep& a) const {
    const std::string of = fmt::format("q {} k {} v {}", access(a.q), access(a.k), access(a.v));
    const std::string how = fmt::format("[{} over {}{}{}]", dim(a.op.query), dim(a.op.key),
                                        band_text(dim(a.op.query), dim(a.op.key), a.op.least, a.op.most),
                                        a.ring ? ", in a ring over " + axes(a.ring->axes) : "");
    if (!a.backward)
      return fmt::format("attention {} {} -> {}, log sum {} for each [{}]", how, of, access(a.out), access(a.log_sum),
                         names(a.batch));
    return fmt::format("attention gradient {} {} out {} log sum {} d {} -> {}, {}, {} for each [{}]", how, of,
                       access(a.out), access(a.log_sum), access(a.d_out), access(a.d_q), access(a.d_k), access(a.d_v),
                       names(a.batch));
  }
  std::string text(const TakeStep& t) const {
    return fmt::format("take[{}] {} = {} at {}", dim(t.dim), access(t.out), access(t.table), access(t.ids));
  }
  std::string text(const ScatterStep& t) const {
    return fmt::format("scatter[{}] {} {} {} at {}", dim(t.dim), access(t.table),
                       t.reduce == Reduce::max ? "max="
                       : t.adds                ? "also +="
                                               : "+=",
                       access(t.rows), access(t.ids));
  }
  std::string text(const DefinedStep& s) const { return s.definition->text(program_, s); }
  std::string text(const CollectiveStep& c) const {
    static constexpr const char* phases[] = {"", " start", " wait"};
    std::string phase = phases[static_cast<size_t>(c.phase)];
    if (c.last_turn) phase += " in the last turn of " + dim_of(c.last_turn);
    if (c.other_turn) phase += c.phase == CollectiveStep::Phase::start ? " of the next turn" : " of the turn before";
    if (c.kind == CollectiveKind::halo) {
      const LocalDim& local = c.before[static_cast<size_t>(c.from_dim)];
      const std::string over = axes(c.axes);
      return fmt::format("{}margins of {} in {}", over.empty() ? "" : "halo" + phase + " over " + over + " ",
                         dim(local.dim), access(c.to));
    }
    if (c.kind == CollectiveKind::redistribute)
      return fmt::format("redistribute{} {}[{}] {} -> [{}] {}", phase,
                         c.axes.empty() ? "" : "over " + axes(c.axes) + " of ", local_dims(c.before), access(c.from),
                         local_dims(c.after), access(c.to));
    std::string text = fmt::format("{}{} over {}", name_of(c.kind), phase, axes(c.axes));
    if (c.kind == CollectiveKind::permute) text += " to " + axes(c.to_axes);
    const bool rooted = c.kind == CollectiveKind::broadcast || c.kind == CollectiveKind::reduce;
    if (rooted)
      text += (c.kind == CollectiveKind::reduce ? " at " : " from ") +
              to_string(graph(), program_.sharded.layout.mesh, c.at);
    if (const Where* some = makers(c.kind, c.at))
      text += " at " + to_string(graph(), program_.sharded.layout.mesh, *some);
    if (c.kind == CollectiveKind::all_reduce || c.kind == CollectiveKind::reduce_scatter ||
        c.kind == CollectiveKind::reduce)
      text += fmt::format(" {}", meshrt::name_of(c.reduce));
    if (c.from_dim >= 0) text += " of " + dim(c.before[static_cast<size_t>(c.from_dim)].dim);
    if (c.to_dim >= 0) text += " to " + dim(c.after[static_cast<size_t>(c.to_dim)].dim);
    return text + (c.from == c.to ? " " + access(c.to) : " " + access(c.from) + " -> " + access(c.to));
  }
  std::string text(const CombinedStep& c) const {
    std::string text = "together";
    for (const CollectiveStep& one : c.collectives) text += (text == "together" ? " " : "; ") + this->text(one);
    return text;
  }
  std::string text(const CopyStep& c) const { return fmt::format("copy {} = {}", access(c.to), access(c.from)); }
  std::string text(const FillStep& f) const { return fmt::format("fill {} = {}", access(f.to), f.value); }
  std::string text(const MessageStep& m) const {
    return fmt::format("{} the stage {} {}", m.sends ? "send to" : "receive from",
                       m.down == m.sends ? "before" : "behind", access(m.value));
  }
  std::string text(const UntilStep& u) const { return "until " + access(u.done); }
  std::string text(const ForStep& loop) const {
    std::string own = loop.own ? ", each rank its own of " + axes(loop.own->axes) : "";
    if (loop.stage) own += ", those of the stage";
    const std::string order =
        loop.order ? ", as the stages of " + axes({loop.order->axis}) + " have them in their lists" : "";
    static constexpr const char* made[] = {"", ", the first alone", ", the last alone"};
    return fmt::format("for {} {}{}{}{}{}", dim(loop.dim), loop.turns, loop.reverse ? " backwards" : "",
                       made[static_cast<size_t>(loop.only)], own, order);
  }
  std::string text(const ActionStep& action) const {
    switch (action.kind) {
      case ActionKind::forward: return action.keeps ? "forward, without R" : "forward";
      case ActionKind::recompute: return "forward again";
      case ActionKind::input_gradient: return "gradients of inputs";
      case ActionKind::weight_gradient: return "gradients of weights";
      default: return "backward";
    }
  }
  std::string text(const OnePassStep&) const { return "in one pass"; }
  std::string text(const BranchStep& branch) const { return "on " + to_string(program_, branch); }

  const Program& program_;
  std::vector<DimId> dim_of_loop_;
  std::string out_;
};

}  // namespace

std::string print_program(const Program& program) { return Printer(program).whole(); }
std::string to_string(const Program& program, const Buffer& buffer) { return Printer(program).type(buffer); }
std::string to_string(const Program& program, const Access& access) { return Printer(program).access(access); }
std::string summary(const Program& program, const Step& step) { return Printer(program).summary(step); }

}  // namespace mesh
