// evaluated_parts.h: an evaluation of what replicas have in common (replicas.h). Its inputs have the dims that a step
// of the replicas gives them, and each rank computes the samples of its own.
#pragma once
#include <optional>

#include "codegen/graph/graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// Adds the dims of the parts to a graph with the samples of all replicas, and says so in it: the parts of replicas, or
/// so many micro-batches of each.
void declare_evaluated_parts(Graph&, int64_t count, std::optional<int64_t> micro_batches, Span);

/// Rewrites a graph of forward nodes: its loops over parts are those of run_by_micro_batches(), made ones over
/// replicas, and within these over their micro-batches.
void evaluate_by_replicas(Graph&, DiagnosticSink&);

}  // namespace mesh
