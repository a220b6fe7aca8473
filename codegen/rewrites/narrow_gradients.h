// narrow_gradients.h: gradients that ranks add up in a type of fewer bits. What a rank has of a sum is rounded where it
// arises, within the turns of a loop that stacks it, so that a layout sends half the bytes wherever it completes the
// sum; whoever reads a gradient reads the sum, widened. What micro-batches add up stays in f32, and so do all other
// sums.
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

/// Of a step whose gradients have their names and are not yet read.
void narrow_gradients(Graph&, meshrt::Type);

}  // namespace mesh
