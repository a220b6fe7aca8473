// recompute_forward.h: the forward pass of a loop's body once more, as R: what the gradients of a turn need is computed
// again, and F keeps nothing for them.
#pragma once
#include <functional>

#include "codegen/graph/graph.h"

namespace mesh {

/// Repeats all of F that gradients in the body read, between F and them. Loops of F in the body that are `divided`
/// begin again with what they began with in F, each carry with a value of its own.
void recompute_forward(Graph&, BodyId body, const std::function<bool(const LoopOp&)>& divided);

}  // namespace mesh
