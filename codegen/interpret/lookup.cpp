// lookup.cpp: rows of a table by their numbers, and the gradient of that, bound to one rank. The result has
// the dims of the numbers first, then the table's others; those of them that stand before the rows in the table are
// loops around the lookup.
#include "meshrt/lookup.h"

#include <algorithm>
#include <cstring>

#include "codegen/graph/builder.h"
#include "codegen/interpret/steps.h"

namespace mesh {

namespace {

struct Loop {
  int64_t extent, table_stride, result_stride;  // elements
};

struct BoundLookup {
  meshrt::Lookup lookup;
  int64_t count = 1;           // numbers
  int64_t table_elements = 1;  // that this rank holds
  std::vector<Loop> loops;
  Pointer table, ids, result;

  // visit(elements into the table, elements into the result) for every turn of the loops.
  template <class Visit>
  void each(const Visit& visit, size_t depth = 0, int64_t table_at = 0, int64_t result_at = 0) const {
    if (depth == loops.size()) return visit(table_at, result_at);
    for (int64_t i = 0; i < loops[depth].extent; ++i)
      each(visit, depth + 1, table_at + i * loops[depth].table_stride, result_at + i * loops[depth].result_stride);
  }
};

BoundLookup bind_lookup(const Binding& binding, const Access& table, const Access& ids, const Access& result,
                        DimId dim) {
  const auto fault = [&](const std::string& what) {
    internal_error("lookup of " + binding.buffer(ids).name + " in " + binding.buffer(table).name + ": " + what);
  };
  const auto table_dims = dims_of(binding.program, table), id_dims = dims_of(binding.program, ids),
             result_dims = dims_of(binding.program, result);
  const int64_t rank = binding.rank.rank();
  const size_t row = position_of(binding, table, dim);
  const auto stride_of = [&](const Access& access, size_t position) {
    return stride(binding.program, binding.buffer(access), access.turns.size() + position, rank);
  };
  if (binding.buffer(table).type != binding.buffer(result).type) fault("the result has another type");
  if (binding.buffer(ids).type != Type::i32) fault("its numbers are not i32");
  if (result_dims.size() != id_dims.size() + table_dims.size() - 1 ||
      !std::ranges::equal(id_dims, result_dims.first(id_dims.size())))
    fault("the result does not begin with the dims of the numbers");
  BoundLookup bound;
  bound.table = Pointer(binding, table);
  bound.ids = Pointer(binding, ids);
  bound.result = Pointer(binding, result);
  for (const LocalDim& held : id_dims) bound.count *= binding.extent(held);
  for (const LocalDim& held : table_dims) bound.table_elements *= binding.extent(held);
  const Range rows = binding.range(table_dims[row]);
  bound.lookup = {rows.begin, rows.end, stride_of(table, row), stride_of(table, row),
                  id_dims.empty() ? 0 : stride_of(result, id_dims.size() - 1)};
  const auto inner = table_dims.subspan(row + 1);
  if (!std::ranges::equal(inner, result_dims.last(inner.size()))) fault("the result does not end like the table");
  for (size_t i = 0; i < row; ++i) {
    const size_t at = position_of(binding, result, table_dims[i].dim);
    if (result_dims[at] != table_dims[i]) fault("the result holds another part of " + binding.name(table_dims[i].dim));
    bound.loops.push_back({binding.extent(table_dims[i]), stride_of(table, i), stride_of(result, at)});
  }
  return bound;
}

template <class T>
Task take_of(Binding& binding, const TakeStep& step) {
  return [&binding, bound = bind_lookup(binding, step.table, step.ids, step.out, step.dim)] {
    const auto* const table = reinterpret_cast<const T*>(bound.table.at(binding));
    const auto* const ids = reinterpret_cast<const int32_t*>(bound.ids.at(binding));
    auto* const result = reinterpret_cast<T*>(bound.result.at(binding));
    bound.each([&](int64_t table_at, int64_t result_at) {
      meshrt::take(bound.lookup, table + table_at, ids, bound.count, result + result_at);
    });
  };
}

template <class T>
Task take_gradient_of(Binding& binding, const TakeGradientStep& step) {
  return [&binding, adds = step.adds, bound = bind_lookup(binding, step.table, step.ids, step.d, step.dim)] {
    auto* const table = reinterpret_cast<T*>(bound.table.at(binding));
    const auto* const ids = reinterpret_cast<const int32_t*>(bound.ids.at(binding));
    const auto* const result = reinterpret_cast<const T*>(bound.result.at(binding));
    if (!adds) std::memset(table, 0, static_cast<size_t>(bound.table_elements) * sizeof(T));
    bound.each([&](int64_t table_at, int64_t result_at) {
      meshrt::take_gradient(bound.lookup, table + table_at, ids, bound.count, result + result_at);
    });
  };
}

}  // namespace

Task bind_step(Binding& binding, const TakeStep& step) {
  switch (const Type type = binding.buffer(step.table).type) {
    case Type::f32: return take_of<float>(binding, step);
    case Type::f64: return take_of<double>(binding, step);
    case Type::i32: return take_of<int32_t>(binding, step);
    case Type::i64: return take_of<int64_t>(binding, step);
    case Type::u8: return take_of<uint8_t>(binding, step);
    case Type::boolean: return take_of<bool>(binding, step);
    default: internal_error(std::string("the interpreter has no lookup in tables of ") + meshrt::name_of(type));
  }
}

Task bind_step(Binding& binding, const TakeGradientStep& step) {
  switch (const Type type = binding.buffer(step.table).type) {
    case Type::f32: return take_gradient_of<float>(binding, step);
    case Type::f64: return take_gradient_of<double>(binding, step);
    default: internal_error(std::string("the interpreter has no gradient of lookups of ") + meshrt::name_of(type));
  }
}

}  // namespace mesh
