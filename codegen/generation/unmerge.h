// unmerge.h: a dim that positions are made a part of, `x[batch * seq as token]`, as its parts again. What is computed
// along it element by element is computed along these, and the sequence stays a dim of its own.
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

/// Where an op works along the whole of such a dim, it stands merged before that op alone. The graph has
/// `Graph::generation`.
void unmerge(Graph&);

}  // namespace mesh
