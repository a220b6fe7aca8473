// differentiate.h: reverse-mode gradients, region by region. A loop's gradient is a loop that runs backwards; forward
// values that it needs are stashed (collected by the forward loop) where a product reads them or they cost much, else
// computed again in place.
#pragma once
#include <map>

#include "codegen/gradient/computed_again.h"
#include "codegen/graph/graph.h"

namespace mesh {

/// Appends the gradient of `loss` by each of `parameters` to the root body and names it "grad(PATH)" in Graph::names.
/// Nodes are marked R (recompute), I (input_gradient: other gradients need them) or W (weight_gradient), and belong to
/// the regions of the forward nodes that they are made for. A parameter that the loss
/// does not depend on gets zeros.
std::map<StoredId, ValueId> differentiate(Graph&, ValueId loss, const std::vector<StoredId>& parameters,
                                          const ComputedAgain& = {});

}  // namespace mesh
