// weight_loops.h: the weights' gradients (W) of a backward loop as a loop of their own, so that a schedule may put them
// at another time than the gradients that go on (I).
#pragma once
#include <span>
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

/// Cuts each backward loop over one of `dims`, and each beside these whose turns read W, into one that computes what
/// earlier layers wait for, and one behind it, in the same order of turns, that computes what is left. What the second
/// needs of the first is kept turn by turn, but for views, which are made again. What is made of its results is W too.
/// What nobody reads then is removed, but for what is `also_needed`.
void separate_weight_gradients(Graph&, const std::vector<DimId>& dims, std::span<const ValueId> also_needed);

}  // namespace mesh
