#include "codegen/program/lookup_dims.h"

#include <algorithm>

#include "codegen/program/extent.h"

namespace mesh {

namespace {

bool has(std::span<const LocalDim> dims, DimId dim) { return std::ranges::count(dims, dim, &LocalDim::dim) > 0; }

void append(Dims& order, std::span<const LocalDim> dims) {
  for (const LocalDim& local : dims) order.push_back(local.dim);
}

}  // namespace

LookupDims lookup_dims(const Program& program, const Access& table, const Access& ids, DimId dim) {
  LookupDims of;
  const auto held = dims_of(program, table), numbers = dims_of(program, ids);
  for (const LocalDim& local : numbers) (has(held, local.dim) ? of.shared : of.counted).push_back(local);
  bool behind = false;
  for (const LocalDim& local : held) {
    if (local.dim == dim) behind = true;
    else if (!has(numbers, local.dim)) (behind ? of.inner : of.before).push_back(local);
  }
  return of;
}

Dims lookup_order_of_ids(const Program& program, const Access& table, const Access& ids, DimId dim) {
  const LookupDims of = lookup_dims(program, table, ids, dim);
  Dims order;
  append(order, of.shared);
  append(order, of.counted);
  return order;
}

Dims lookup_order_of_table(const Program& program, const Access& table, const Access& ids, DimId dim) {
  const LookupDims of = lookup_dims(program, table, ids, dim);
  const auto held = dims_of(program, table);
  Dims order;
  append(order, held);
  Dims inner;
  append(inner, of.inner);
  if (std::equal(inner.rbegin(), inner.rend(), order.rbegin(),
                 order.rbegin() + static_cast<std::ptrdiff_t>(inner.size())))
    return order;
  order.clear();
  append(order, of.shared);
  append(order, of.before);
  order.push_back(dim);
  append(order, of.inner);
  return order;
}

Dims lookup_order_of_rows(const Program& program, const Access& table, const Access& ids, DimId dim) {
  const LookupDims of = lookup_dims(program, table, ids, dim);
  Dims order;
  for (const auto* dims : {&of.shared, &of.counted, &of.before, &of.inner}) append(order, *dims);
  return order;
}

}  // namespace mesh
