// dims.h: what passes ask of a list of dims.
#pragma once
#include <algorithm>
#include <iterator>
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

using Dims = std::vector<DimId>;

inline bool has(const Dims& dims, DimId dim) { return std::find(dims.begin(), dims.end(), dim) != dims.end(); }

/// The dims of `from` for which `keep` holds, in order.
template <class Keep>
Dims filtered(const Dims& from, Keep keep) {
  Dims result;
  std::copy_if(from.begin(), from.end(), std::back_inserter(result), keep);
  return result;
}

/// Whether the dims of `group` are neighbours in memory in this order, so that one stride walks over all of them.
inline bool is_stretch(const Dims& memory, const Dims& group) {
  return group.empty() || std::search(memory.begin(), memory.end(), group.begin(), group.end()) != memory.end();
}

/// The order with `from` (the first of which keeps the place) replaced by `to`.
inline Dims replaced(const Dims& order, const Dims& from, const Dims& to) {
  Dims result;
  for (DimId dim : order) {
    if (dim == from[0]) result.insert(result.end(), to.begin(), to.end());
    else if (!has(from, dim)) result.push_back(dim);
  }
  return result;
}

/// The type with `to` in place of `from`; without `from` where `to` is no dim.
inline ValueType with_dim(ValueType type, DimId from, DimId to) {
  const auto place = std::find(type.dims.begin(), type.dims.end(), from);
  if (to) *place = to;
  else type.dims.erase(place);
  return type;
}

}  // namespace mesh
