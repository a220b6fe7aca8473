// entries.h: the graphs that are compiled, made from one elaborated model: a training step, and an evaluation of a
// batch.
#pragma once
#include <set>

#include "codegen/graph/graph.h"

namespace mesh {

/// Forward, gradients and updates. Names "grad(PATH)" are there for every parameter that is not frozen. `remat`: dims
/// of loops whose turns are computed again for the gradients.
Graph differentiated(const Graph& model, const std::set<DimId>& remat = {});
/// What is left after differentiation: optimizer, composite ops written out, equal and dead nodes removed.
/// `Graph::wanted` and what is watched must be set before.
Graph training_step(const Graph& differentiated);
/// The metrics of one batch; counts stay sums, so that they add up over batches. `model` was elaborated for it: without
/// updates.
Graph evaluation(const Graph& model);

}  // namespace mesh
