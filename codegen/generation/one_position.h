// one_position.h: the entry `generate`: a model at one position of its sequence. What a position has been is kept in
// caches: whatever an op needs of all positions (renamed keys and values, what a running sum adds up), and what loops
// along the sequence carry. An op that works along the sequence is computed of all that is kept; everything else of
// this position alone.
#pragma once
#include <optional>

#include "codegen/graph/graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// Of a model that is causal (causal.h). Its one output are the logits, without the dim of the sequence. E0901 for an
/// op that cannot be taken position by position yet.
std::optional<Graph> at_one_position(const Graph&, DiagnosticSink&);

}  // namespace mesh
