// recompute_forward.h: the forward pass of a loop's body once more, as R: what the gradients of a turn need is computed
// again, and F keeps nothing for them.
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

/// Repeats all of F that gradients in the body read, between F and them. Loops in the body over `dim` begin again with
/// what F's began with, each carry with a value of its own.
void recompute_forward(Graph&, BodyId body, DimId dim);

}  // namespace mesh
