// stage_carries.h: what a stage of a pipeline makes and a later one reads goes with what the loops between them carry,
// so that it is handed from neighbour to neighbour, and its gradient back.
#pragma once
#include "codegen/layout/mesh.h"

namespace mesh {

/// Of a model that is to be a pipeline, before its gradients: a value made in front of one of the pipeline's loops, or
/// between two, that turns read or what stands behind, becomes a carry of each loop on the way, which leaves it as it
/// is. What has no gradient, and what is made of parameters alone, is not handed on: each stage makes it for itself.
void carry_through_loops(Graph&, const Layout&);

}  // namespace mesh
