// replicas.h: a step of replicas that train apart (local SGD, DiLoCo). Each has parameters and moments of its own and a
// part of the samples; a loop over the replicas makes the forward and backward pass of each, none of which needs
// anything of another. What a layout places of this is the loop's dim: its turns, and all that has that dim, are split
// over the axis of the replicas. One rank makes the turns one after the other.
//
// The model is elaborated for the samples of one replica: `batch` has their number until the loop is there.
#pragma once
#include "codegen/graph/graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// Adds the dims to the graph, which has the samples of one of `count` replicas, and says so in it.
void declare_replicas(Graph&, int64_t count, Span);
/// The dims of so many replicas, which have parts of the graph's samples, cut into `cut` parts (declare_parts).
SampleParts parts_of_replicas(Graph&, int64_t count, int64_t cut, Span);

/// Rewrites a graph of forward and gradient nodes, of which each replica's samples are first cut into micro-batches
/// where these are declared. Trained parameters become [replica, ...] tensors of the optimizer, `PATH.replica`; `PATH`
/// itself is what the replicas have in common, which a step leaves alone. The scale of a loss and its counts become
/// [replica] tensors `LOSS.scale.replica`. Inputs become [replica, part, ...]. Metrics are means over the replicas,
/// gradients and other values have their dim in front.
void run_by_replicas(Graph&, DiagnosticSink&);

}  // namespace mesh
