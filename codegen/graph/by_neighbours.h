// by_neighbours.h: ops along a sequence that are no more than sums over neighbours.
#pragma once
#include <functional>
#include <vector>

#include "codegen/graph/builder.h"

namespace mesh {

/// The results of the node by neighbours along the dims that `is_sequence` says, as OpKind::by_neighbours; empty for
/// other ops.
std::vector<ValueId> by_neighbours(GraphBuilder&, const Node&, const std::function<bool(DimId)>& is_sequence);

}  // namespace mesh
