// fuse_epilogues.cpp: elementwise nests after a product join it: it computes them, and rounds what they give, while the
// tile is in registers. Before nests are merged, so each nest here is one operation.
#include <algorithm>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/kept_for_readers.h"
#include "codegen/program/memory_uses.h"
#include "codegen/program/single_map.h"
#include "codegen/program/view_of.h"
#include "codegen/program/walk.h"

namespace mesh {
namespace {

class EpilogueFuser {
 public:
  explicit EpilogueFuser(Program& program)
      : program_(program), keep_(outlive_routine(program)), uses_(program), names_(program) {}

  void run() {
    for_each_list(program_, [&](Steps& steps) {
      for (size_t i = 0; i < steps.size(); ++i)
        if (std::holds_alternative<ProductStep>(steps[i].what)) {
          while (absorb(steps, i)) {}
          round(steps, i);
        }
    });
    uses_.sweep();
  }

 private:
  uint32_t root(const Access& access) const { return storage(program_, access.buffer).index; }
  Type type_of(const Access& access) const { return program_.buffer(access.buffer).type; }

  /// Takes the nest that reads the product's result into the epilogue. The nest moves up to the product, so nothing in
  /// between may write what it reads, or touch what it writes.
  bool absorb(Steps& steps, size_t i) {
    ProductStep& p = std::get<ProductStep>(steps[i].what);
    if (keep_[root(p.c)] || (type_of(p.c) != Type::f32 && type_of(p.c) != Type::f64)) return false;
    if (p.epilogue.rounded) return false;  // in an earlier round: what came after that would be rounded with it
    const std::vector<size_t> here = uses_.readers(steps, p.c);
    const auto first = std::ranges::upper_bound(here, i);
    if (first == here.end()) return false;
    const size_t at = *first;
    const std::optional<SingleMap> next = single_map(steps[at]);
    if (!next || !same_dims(program_, next->to, p.c) || type_of(next->to) != type_of(p.c)) return false;
    if (!may_move(program_, uses_, steps, at, i + 1)) return false;
    ProductStep::Epilogue epilogue = p.epilogue;
    if (!extend(epilogue, p, *next)) return false;
    bool accumulate = p.accumulate;
    const bool elsewhere = uses_.readers(p.c).size() > 1;
    if (touches(epilogue, p, next->to)) {  // what is kept from step to step, and added to
      if (elsewhere || epilogue.plus != next->to || touches(p.epilogue, p, next->to) || !can_accumulate(p))
        return false;
      epilogue.plus.reset();
      accumulate = true;
    }
    if (elsewhere) {
      // R, or an F in its place, makes it too: its readers read what that makes.
      if (uses_.writers(p.c).size() > 1) return false;
      if (!is_activation(next->function))
        return keep_repeated(program_, uses_, p.c, steps[at]) && finish(steps[i], epilogue, accumulate, p.c);
      const std::optional<KeptSlope> kept = keep_slope(program_, uses_, names_, p.c, *next, steps[at]);
      if (!kept) return false;
      epilogue.slope = kept->slope;
    }
    const Access to = next->to;
    swallow(steps[i], steps[at]);
    uses_.removed(steps[at]);
    return finish(steps[i], epilogue, accumulate, to);
  }

  /// Where a nest rounds the product's result to bf16, under these or other names of dims, for products that read it
  /// so, the product does it. The result itself stays for other readers.
  void round(Steps& steps, size_t i) {
    const ProductStep& p = std::get<ProductStep>(steps[i].what);
    if (type_of(p.c) != Type::f32 || p.epilogue.rounded) return;
    for (const size_t at : uses_.readers(steps, p.c)) {
      if (at <= i) continue;
      const std::optional<SingleMap> next = single_map(steps[at]);
      if (!next || next->function != MapFunction::cast || !next->load(0) || !is_all_of(*next->load(0), p.c)) continue;
      if (type_of(next->to) != Type::bf16 || !same_dims(program_, next->to, *next->load(0))) continue;
      if (touches(p.epilogue, p, next->to) || !may_move(program_, uses_, steps, at, i + 1)) continue;
      const auto of_result = dims_of(program_, p.c);
      const Access to = {view_of(program_, names_, next->to, {of_result.begin(), of_result.end()}), next->to.turns};
      swallow(steps[i], steps[at]);
      uses_.removed(steps[at]);
      uses_.change(steps[i], [&] { std::get<ProductStep>(steps[i].what).epilogue.rounded = to; });
      return;
    }
  }

  /// Whether the access reads the result element by element, as it lies or as a view of it.
  bool is_all_of(const Access& access, const Access& result) const {
    return root(access) == root(result) && access.turns == result.turns && access.maps.empty() && result.maps.empty();
  }

  bool finish(Step& step, const ProductStep::Epilogue& epilogue, bool accumulate, const Access& to) {
    uses_.change(step, [&] {
      ProductStep& p = std::get<ProductStep>(step.what);
      p.epilogue = epilogue;
      p.accumulate = accumulate;
      p.c = to;
    });
    return true;
  }

  /// Whether the product reads, or writes beside its result, the memory of `to`.
  bool touches(const ProductStep::Epilogue& epilogue, const ProductStep& p, const Access& to) const {
    const auto is_in = [&](const std::optional<Access>& other) { return other && root(*other) == root(to); };
    bool found = is_in(p.a) || is_in(p.b) || is_in(epilogue.bias) || is_in(p.column_sum);
    epilogue.for_each_like_result([&](const Access& other) { found = found || is_in(other); });
    return found;
  }

  /// Whether nothing happens to the sum of products on its way to the result.
  static bool can_accumulate(const ProductStep& p) {
    return !p.accumulate && !p.column_sum && !p.epilogue.bias && !p.epilogue.activation && !p.epilogue.times;
  }

  /// The epilogue with the operation added, where its order allows: bias, activation, times, plus.
  bool extend(ProductStep::Epilogue& epilogue, const ProductStep& p, const SingleMap& next) const {
    if (is_activation(next.function)) {
      if (epilogue.activation || epilogue.times || epilogue.plus || !next.load(0) || *next.load(0) != p.c) return false;
      epilogue.activation = next.function;
      return true;
    }
    if (next.function != MapFunction::add && next.function != MapFunction::multiply) return false;
    const Access* left = next.load(0);
    const Access* right = next.load(1);
    if (!left || !right || (*left == p.c) == (*right == p.c)) return false;
    const Access& other = *left == p.c ? *right : *left;
    if (type_of(other) != type_of(p.c)) return false;
    const bool add = next.function == MapFunction::add;
    if (add && is_bias(other, p) && !epilogue.bias && !epilogue.activation && !epilogue.times && !epilogue.plus) {
      epilogue.bias = other;
      return true;
    }
    if (!same_dims(program_, other, p.c) || epilogue.plus || (!add && epilogue.times)) return false;
    (add ? epilogue.plus : epilogue.times) = other;
    return true;
  }

  /// A value for each column, the same in every loop around the product or indexed by all of its dims.
  bool is_bias(const Access& access, const ProductStep& p) const {
    std::vector<LocalDim> of_columns;
    for (const LocalDim& local : dims_of(program_, p.c))
      if (!std::ranges::count(p.rows, local.dim) && !std::ranges::count(p.batch, local.dim))
        of_columns.push_back(local);
    return !p.cols.empty() && std::ranges::equal(dims_of(program_, access), of_columns);
  }

  Program& program_;
  const std::vector<bool> keep_;  // by buffer: read when the routine has ended
  MemoryUses uses_;
  BufferNames names_;
};

}  // namespace

void fuse_epilogues(Program& program) { EpilogueFuser(program).run(); }

}  // namespace mesh
