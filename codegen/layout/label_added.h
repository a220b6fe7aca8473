// label_added.h: for which function of which region (gradient/regions.h) the nodes stand that placement added.
#pragma once
#include "codegen/layout/sharded_graph.h"

namespace mesh {

/// Labels each node from ShardedGraph::first_added on like the first function that reads what it makes (Node::part,
/// Node::region): what W and I of a region read is made for I. What only leaves its body, as a carry, a stack or a
/// result of the step, or is brought at once to where a rule wants it, belongs to what it is made of. What is made of
/// positions and plain numbers alone is there wherever it is asked for and belongs to no region.
void label_added(ShardedGraph&);

}  // namespace mesh
