// place.h: gives every value of a graph a placement and inserts the movements of data between them. One pass in order
// of execution: rules bind what they name; for the rest each op takes the cheapest strategy, counting the movements of
// its operands and results on the named machine.
#pragma once
#include "codegen/graph/graph.h"
#include "codegen/layout/machine.h"
#include "codegen/layout/mesh.h"
#include "codegen/layout/reshard.h"
#include "codegen/layout/sharded_graph.h"

namespace mesh {

ShardedGraph place(const Graph&, const Layout&, const Machine&);

/// The same without a second look at anything, and without labels: at most so good, in a fraction of the time.
/// `planner` is of these dims, mesh and machine.
ShardedGraph place_once(const Graph&, const Layout&, const Machine&, ReshardPlanner& planner);

}  // namespace mesh
