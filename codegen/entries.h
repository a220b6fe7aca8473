// entries.h: the graphs of a program's entries, made of elaborated models.
#pragma once
#include "codegen/gradient/computed_again.h"
#include "codegen/graph/graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// Forward, gradients and updates. Names "grad(PATH)" are there for every parameter that is not frozen.
/// Groups of turns are made before.
Graph differentiated(const Graph& model, const ComputedAgain& = {});
/// What is left to do: the optimizer's updates where there is an objective, composite ops written out, equal and dead
/// nodes removed. `Graph::wanted` and what is watched must be set before.
Graph completed(const Graph&);
/// Of a model that was elaborated for another entry than the training step: what this entry gives and nothing else. Its
/// metrics, its wanted values as outputs, or what its updates store.
void keep_metrics(Graph&);
void keep_values(Graph&);
void keep_updates(Graph&);
/// The same as keep_values, of a set that is read batch by batch: what is drawn for a sample goes by its place in the
/// set. Also a model without an objective has samples here, along the first dim of its first input.
void keep_values_of_samples(Graph&);
/// Of graphs of such values: E0218 unless every output has a value for each sample, made of that sample alone and not
/// of its place in its batch.
void require_samples(const Graph&, DiagnosticSink&);
/// E0218 unless every output is computed as in the same model with a `larger` batch.
void require_same_numbers(const Graph&, const Graph& larger, DiagnosticSink&);

}  // namespace mesh
