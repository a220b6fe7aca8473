// verify_graph.h: what must hold of every graph, checked after every pass. A violation is the compiler's mistake.
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

/// Values are defined before they are used and visible where they are; loops' carries, slices and collects have the
/// types they must; every result has the type that its op makes of its operands, dims by id; I never reads what W
/// computes. Throws internal_error that names `pass` and the node.
void verify_graph(const Graph&, const char* pass);

}  // namespace mesh
