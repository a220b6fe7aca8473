// sort.h: sorting, for what is built of it (sort.cpp).
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

/// (x) -> x's first elements along `dim` when sorted, and their index(dim), both along `to`. Equals stand in order of
/// index, NaN last.
struct Sort {
  DimId dim, to;
  bool descending;

  Op op() const;
};

}  // namespace mesh
