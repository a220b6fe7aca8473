// verify_placements.h: what must hold of every placed graph, checked after it is made. A violation is the compiler's
// mistake.
#pragma once
#include "codegen/layout/sharded_graph.h"

namespace mesh {

/// An axis means one thing to a value: it splits one of its dims, or is summed over, or only some of its coordinates
/// have the value. Throws internal_error that names `pass` and the value.
void verify_placements(const ShardedGraph&, const char* pass);

}  // namespace mesh
