// needed.h: which elements of its caches a position needs. A mask that keeps others out makes them the neutral number
// of the reduction that follows; what is neutral need not be computed, nor need what it would be computed of.
#pragma once
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

/// Along a dim, the last `count` elements up to the position: none behind it, and none further back.
struct NeededPositions {
  DimId dim;
  int64_t count;
};

/// Of the entry `generate`, the dims of its caches of which no element behind `position`, an input, is needed.
std::vector<NeededPositions> needed_positions(const Graph&, StoredId position);

}  // namespace mesh
