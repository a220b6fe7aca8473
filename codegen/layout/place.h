// place.h: gives every value of a graph a placement and inserts the movements of data between them. One walk in order
// of execution (Placer): rules bind what they name; for the rest each op takes the cheapest strategy, counting the
// movements of its operands and results on the named machine. An op does not see what is behind it, so the graph is
// placed several times (refine.cpp).
#pragma once
#include "codegen/graph/graph.h"
#include "codegen/layout/machine.h"
#include "codegen/layout/mesh.h"
#include "codegen/layout/reshard.h"
#include "codegen/layout/sharded_graph.h"

namespace mesh {

/// The best of several walks.
ShardedGraph place(const Graph&, const Layout&, const Machine&);

/// One walk, without labels: at most so good, in a fraction of the time.
/// `planner` is of these dims, mesh and machine.
ShardedGraph place_once(const Graph&, const Layout&, const Machine&, ReshardPlanner& planner);

}  // namespace mesh
