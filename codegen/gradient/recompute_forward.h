// recompute_forward.h: the forward pass of a loop's body once more, as R: what the gradients of a turn need is computed
// again, and F keeps nothing for them.
#pragma once
#include <functional>
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

/// Repeats all of F that gradients in the body read, between F and them. Loops of F in the body that are `divided`
/// begin again with what they began with in F, each carry with a value of its own. Returns the results of these loops
/// whose carries R begins with: also those that nobody reads must be there, or no stage could hand them on to the next.
std::vector<ValueId> recompute_forward(Graph&, BodyId body, const std::function<bool(const LoopOp&)>& divided);

}  // namespace mesh
