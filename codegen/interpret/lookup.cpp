// lookup.cpp: rows of a table by their numbers, and rows reduced into a table at their numbers, bound to one rank. Dims
// that table and numbers share, and those that stand before the rows in the table, are loops around the lookup.
#include "meshrt/lookup.h"

#include <algorithm>

#include "codegen/graph/builder.h"
#include "codegen/interpret/steps.h"
#include "codegen/program/lookup_dims.h"

namespace mesh {

namespace {

struct Place {
  int64_t table = 0, ids = 0, rows = 0;  // elements
};
struct Loop {
  int64_t extent;
  Place stride;
};

struct BoundLookup {
  meshrt::Lookup lookup;
  int64_t count = 1;           // numbers of one lookup
  int64_t table_elements = 1;  // that this rank holds
  std::vector<Loop> loops;
  Pointer table, ids, rows;

  /// visit(place) for every turn of the loops.
  template <class Visit>
  void each(const Visit& visit, size_t depth = 0, Place at = {}) const {
    if (depth == loops.size()) return visit(at);
    const Loop& loop = loops[depth];
    for (int64_t i = 0; i < loop.extent; ++i) {
      each(visit, depth + 1, at);
      at = {at.table + loop.stride.table, at.ids + loop.stride.ids, at.rows + loop.stride.rows};
    }
  }
};

BoundLookup bind_lookup(const Binding& binding, const Access& table, const Access& ids, const Access& rows, DimId dim) {
  const auto fault = [&](const std::string& what) {
    internal_error("lookup of " + binding.buffer(ids).name + " in " + binding.buffer(table).name + ": " + what);
  };
  if (binding.buffer(table).type != binding.buffer(rows).type) fault("the rows have another type");
  if (binding.buffer(ids).type != Type::i32) fault("its numbers are not i32");
  const LookupDims dims = lookup_dims(binding.program, table, ids, dim);
  const auto stride_along = [&](const Access& access, DimId along) -> int64_t {
    const auto held = dims_of(binding.program, access);
    if (std::ranges::count(held, along, &LocalDim::dim) == 0) return 0;
    const size_t position = access.turns.size() + position_of(binding, access, along);
    return stride(binding.program, binding.buffer(access), position, binding.rank.rank());
  };
  BoundLookup bound;
  bound.table = Pointer(binding, table);
  bound.ids = Pointer(binding, ids);
  bound.rows = Pointer(binding, rows);
  for (const LocalDim& held : dims.counted) bound.count *= binding.extent(held);
  for (const LocalDim& held : dims_of(binding.program, table)) bound.table_elements *= binding.extent(held);
  int64_t width = 1;
  for (const LocalDim& held : dims.inner) width *= binding.extent(held);
  const Range held = binding.range(dims_of(binding.program, table)[position_of(binding, table, dim)]);
  bound.lookup = {held.begin, held.end, width, stride_along(table, dim),
                  dims.counted.empty() ? 0 : stride_along(rows, dims.counted.back().dim)};
  for (const auto* around : {&dims.shared, &dims.before})
    for (const LocalDim& local : *around)
      bound.loops.push_back(
          {binding.extent(local),
           {stride_along(table, local.dim), stride_along(ids, local.dim), stride_along(rows, local.dim)}});
  return bound;
}

template <class T>
Task take_of(Binding& binding, const TakeStep& step) {
  return [&binding, bound = bind_lookup(binding, step.table, step.ids, step.out, step.dim)] {
    const auto* const table = reinterpret_cast<const T*>(bound.table.at(binding));
    const auto* const ids = reinterpret_cast<const int32_t*>(bound.ids.at(binding));
    auto* const rows = reinterpret_cast<T*>(bound.rows.at(binding));
    bound.each([&](const Place& at) {
      meshrt::take(bound.lookup, table + at.table, ids + at.ids, bound.count, rows + at.rows);
    });
  };
}

template <class T>
Task scatter_of(Binding& binding, const ScatterStep& step) {
  const bool largest = step.reduce == Reduce::max;
  return
      [&binding, largest, adds = step.adds, bound = bind_lookup(binding, step.table, step.ids, step.rows, step.dim)] {
        auto* const table = reinterpret_cast<T*>(bound.table.at(binding));
        const auto* const ids = reinterpret_cast<const int32_t*>(bound.ids.at(binding));
        const auto* const rows = reinterpret_cast<const T*>(bound.rows.at(binding));
        if (!adds) std::fill_n(table, bound.table_elements, largest ? meshrt::least<T>() : T(0));
        bound.each([&](const Place& at) {
          if (largest) meshrt::scatter_max(bound.lookup, table + at.table, ids + at.ids, bound.count, rows + at.rows);
          else meshrt::scatter_add(bound.lookup, table + at.table, ids + at.ids, bound.count, rows + at.rows);
        });
      };
}

}  // namespace

Task bind_step(Binding& binding, const TakeStep& step) {
  switch (const Type type = binding.buffer(step.table).type) {
    case Type::f32: return take_of<float>(binding, step);
    case Type::f64: return take_of<double>(binding, step);
    case Type::bf16: return take_of<meshrt::Bfloat16>(binding, step);
    case Type::f16: return take_of<meshrt::Float16>(binding, step);
    case Type::i32: return take_of<int32_t>(binding, step);
    case Type::i64: return take_of<int64_t>(binding, step);
    case Type::u8: return take_of<uint8_t>(binding, step);
    case Type::boolean: return take_of<bool>(binding, step);
    default: internal_error(std::string("the interpreter has no lookup in tables of ") + meshrt::name_of(type));
  }
}

Task bind_step(Binding& binding, const ScatterStep& step) {
  switch (const Type type = binding.buffer(step.table).type) {
    case Type::f32: return scatter_of<float>(binding, step);
    case Type::f64: return scatter_of<double>(binding, step);
    case Type::i32: return scatter_of<int32_t>(binding, step);
    case Type::i64: return scatter_of<int64_t>(binding, step);
    default: internal_error(std::string("the interpreter does not reduce by index values of ") + meshrt::name_of(type));
  }
}

}  // namespace mesh
