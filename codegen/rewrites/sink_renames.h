// sink_renames.h: one form for what a spec may write in two ways, `dot[d](x[seq as key], w)` and
// `dot[d](x, w)[seq as key]`, so that both are placed alike.
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

/// Dims get other names as late as possible: behind products, sums and elementwise functions that do not mind. Then
/// readers of one value read it under one name. A rename that the spec gives a name stays: a layout may speak of it.
void sink_renames(Graph&);

}  // namespace mesh
