// balance.h: how evenly the parts of an op share its work. Of a causal mask those with the last queries see most keys;
// dealt in zigzag all see as many.
#pragma once
#include <vector>

#include "codegen/graph/op.h"
#include "codegen/layout/placement.h"

namespace mesh {

/// How many times its even share the rank with most of the work has, if the node's first operand lies so.
double largest_share(const Graph&, const MeshShape&, const Node&, const std::vector<Factor>&, const Placement& first);

}  // namespace mesh
