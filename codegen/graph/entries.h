// entries.h: the graphs that are compiled, made from one elaborated model: a training step, and an evaluation of a
// batch.
#pragma once
#include <functional>

#include "codegen/graph/graph.h"

namespace mesh {

/// Forward, gradients and updates. Names "grad(PATH)" are there for every parameter that is not frozen.
Graph differentiated(const Graph& model);
/// What is left after differentiation: optimizer, composite ops written out, equal and dead nodes removed.
/// `Graph::wanted` must be set before; the norm of all gradients, which clipping computes here, is added as "grad_norm"
/// if it is wanted too.
Graph training_step(const Graph& differentiated, bool want_norm = false);
/// The metrics of one batch; counts stay sums, so that they add up over batches. `model` was elaborated for it: without
/// updates.
Graph evaluation(const Graph& model);

}  // namespace mesh
