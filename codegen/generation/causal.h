// causal.h: may the model write its sequence position by position? It may if what stands at a position of the result is
// made of this position and earlier ones alone.
#pragma once
#include "codegen/graph/graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// E0512, at the op that brings in later positions. The graph has `Graph::generation`.
void prove_causal(const Graph&, DiagnosticSink&);

}  // namespace mesh
