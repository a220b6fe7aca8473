// label_added.h: for which function of which region (gradient/regions.h) the nodes stand that placement added.
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

/// Labels each node from `first_added` on like the first function that reads what it makes (Node::part, Node::region):
/// what W and I of a region read is made for I. What only leaves its body, as a carry, a stack or a result of the step,
/// belongs to what it is made of. What is made of positions and plain numbers alone is there wherever it is asked for
/// and belongs to no region.
void label_added(Graph&, size_t first_added);

}  // namespace mesh
