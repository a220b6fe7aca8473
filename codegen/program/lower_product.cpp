// lower_product.cpp: contractions as batched matrix products. Dims are classified by the operands that have them; each
// class must be one stretch of memory in every matrix, so dims that are not become loops around the product, or an
// operand is brought into another order first.
#include <algorithm>

#include "codegen/graph/dims.h"
#include "codegen/program/extent.h"
#include "codegen/program/lowering.h"

namespace mesh {

namespace {

Dims names_of(std::span<const LocalDim> dims) {
  Dims names;
  for (const LocalDim& local : dims) names.push_back(local.dim);
  return names;
}

Dims joined(std::initializer_list<Dims> parts) {
  Dims all;
  for (const Dims& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

void Lowering::lower_dot(const Node& node) {
  const Dims& contracted = std::get<DotOp>(node.op).dims;
  ProductStep product;
  product.a = in_memory(node.inputs[0]);
  product.b = in_memory(node.inputs[1]);
  const Access result = allocate(node.results[0]);
  product.c = result;
  Dims c = names_of(dims_of(program_, product.c));
  // The innermost dim of the result must be a column's: the operands change places where it is a row's.
  if (!c.empty() && !has(names_of(dims_of(program_, product.b)), c.back())) std::swap(product.a, product.b);
  Dims a = names_of(dims_of(program_, product.a)), b = names_of(dims_of(program_, product.b));

  product.batch = filtered(c, [&](DimId d) { return has(a, d) && has(b, d); });
  product.rows = filtered(c, [&](DimId d) { return has(a, d) && !has(b, d); });
  product.cols = filtered(c, [&](DimId d) { return !has(a, d) && has(b, d); });
  product.inner = filtered(b, [&](DimId d) { return has(contracted, d); });

  const auto is_batch = [&](DimId d) { return has(product.batch, d); };
  // An operand must have unit stride along its rows or its inner dims, and its inner dims in one piece. Where it is
  // copied for that, what lies side by side stays so: a copy moves whole lines then.
  const auto in_order = [&](Access& operand, Dims& dims, const Dims& free) {
    const bool fits = is_stretch(dims, product.inner) && (dims.empty() || !is_batch(dims.back()));
    if (fits) return;
    const Dims batch = filtered(dims, is_batch), own = filtered(free, [&](DimId d) { return has(dims, d); });
    const bool inner_last = own.empty() || dims.back() != own.back();
    dims = inner_last ? joined({batch, own, product.inner}) : joined({batch, product.inner, own});
    operand = reordered(operand, dims);
  };
  // Where only the left operand has its inner dims in one piece, the product follows its order.
  const Dims inner_of_a = filtered(a, [&](DimId d) { return has(contracted, d); });
  if (!is_stretch(b, product.inner) && is_stretch(a, inner_of_a)) product.inner = inner_of_a;
  in_order(product.a, a, product.rows);
  in_order(product.b, b, product.cols);
  if (!c.empty() && is_batch(c.back())) {  // the result is made in another order and then turned
    c = joined({product.batch, product.rows, product.cols});
    product.c = turned(product.c, c);
  }
  // Rows and columns that are not in one piece: their leading dims become loops around the product.
  const auto shorten = [&](Dims& group, const Dims& operand) {
    while (!is_stretch(c, group) || !is_stretch(operand, group)) {
      product.batch.push_back(group.front());
      group.erase(group.begin());
    }
  };
  shorten(product.rows, a);
  shorten(product.cols, b);

  const Access made = product.c;
  emit(std::move(product));
  if (made != result) emit(CopyStep{made, result});
}

}  // namespace mesh
