// fuse_column_sums.cpp: a nest that sums a product's right operand over the product's inner dims becomes its column
// sum, as gradients of biases are.
#include <algorithm>

#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/memory_uses.h"
#include "codegen/program/walk.h"

namespace mesh {
namespace {

/// What the nest sums up to, where it does no more than to add up `b`.
const Access* sum_of(const Step& step, const Access& b) {
  const auto* nest = std::get_if<Nest>(&step.what);
  if (!nest || nest->passes.size() != 1 || !nest->rows.empty()) return nullptr;
  const Pass& pass = nest->passes[0];
  if (pass.scalars.size() != 1 || !pass.stores.empty() || pass.accumulates.size() != 1) return nullptr;
  const auto* load = std::get_if<Scalar::Load>(&pass.scalars[0].what);
  const Pass::Accumulate& sum = pass.accumulates[0];
  return load && load->access == b && sum.reduce == Reduce::sum && !sum.adds ? &sum.to : nullptr;
}

/// Whether the sum is of the columns that the product has, not of a part of them.
bool is_of_columns(const Program& program, const ProductStep& p, const Access& sum) {
  const auto of_b = dims_of(program, p.b);
  std::vector<DimId> whole = p.inner;
  whole.insert(whole.end(), p.cols.begin(), p.cols.end());
  return std::ranges::equal(of_b, whole, {}, &LocalDim::dim) &&
         std::ranges::equal(dims_of(program, sum), of_b.subspan(p.inner.size())) &&
         program.buffer(sum.buffer).type == program.buffer(p.c.buffer).type;
}

}  // namespace

void fuse_column_sums(Program& program) {
  MemoryUses uses(program);
  for_each_list(program, [&](Steps& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      ProductStep* p = std::get_if<ProductStep>(&steps[i].what);
      if (!p || p->column_sum || p->accumulate || !p->batch.empty()) continue;
      for (const size_t at : uses.readers(steps, p->b)) {
        const Access* sum = sum_of(steps[at], p->b);
        if (!sum || !is_of_columns(program, *p, *sum) || !may_move(program, uses, steps, at, i)) continue;
        uses.change(steps[i], [&] { p->column_sum = *sum; });
        swallow(steps[i], steps[at]);
        uses.removed(steps[at]);
        break;
      }
    }
  });
  uses.sweep();
}

}  // namespace mesh
