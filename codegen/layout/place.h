// place.h: gives every value of a graph a placement and inserts the movements of data between them. One walk in order
// of execution (Placer): rules bind what they name; for the rest each op takes the cheapest strategy, counting the
// movements of its operands and results on the named machine. An op does not see what is behind it, so the graph is
// placed several times (refine.cpp).
#pragma once
#include <memory>

#include "codegen/graph/graph.h"
#include "codegen/layout/graph_facts.h"
#include "codegen/layout/machine.h"
#include "codegen/layout/mesh.h"
#include "codegen/layout/sharded_graph.h"

namespace mesh {

/// The best of several walks.
ShardedGraph place(const Graph&, const Layout&, const Machine&);
/// The same for who places a graph under many layouts of one mesh.
ShardedGraph place(std::shared_ptr<GraphFacts>, const Layout&);

/// One walk, without labels: at most so good, in a fraction of the time.
ShardedGraph place_once(std::shared_ptr<GraphFacts>, const Layout&);

}  // namespace mesh
