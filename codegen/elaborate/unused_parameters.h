// unused_parameters.h: parameters that are trained although the loss does not depend on them.
#pragma once
#include "codegen/graph/graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// The lint unused_parameter. `graph` is an elaborated model; one without an objective trains nothing.
void report_unused_parameters(const Graph& graph, DiagnosticSink&);

}  // namespace mesh
