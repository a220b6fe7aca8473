// gradient_parts.h: tells apart the two halves of a backward pass: I, the gradients that earlier regions wait for, and
// W, those of parameters alone, which a schedule may put off.
#pragma once

#include "codegen/graph/graph.h"

namespace mesh {

/// Marks every node from `first_node` on, but what is recomputed, which is R.
void mark_gradient_parts(Graph&, uint32_t first_node);

}  // namespace mesh
