// want.h: gradients asked for by name. Values of the forward pass are asked for while the graph is elaborated;
// gradients are there only after differentiation.
#pragma once
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// The paths that a path or pattern (`layer.*.gain`, `**`) names, in their order.
std::vector<std::string> matching_paths(const std::string& pattern, const std::vector<std::string>& paths);

/// Adds to Graph::wanted every gradient that a name of `wanted` asks for: `grad(PATH)` or `grad(PATTERN)`. Other names
/// are left to others. Reports a name that matches none, and "grad_norm" where nothing is trained (E0209).
void want_gradients(Graph&, const std::vector<std::string>& wanted, DiagnosticSink&);
/// Adds the norm of all gradients, before clipping, if "grad_norm" is wanted: when these are complete, micro-batches
/// and all.
void want_norm(Graph&, const std::vector<std::string>& wanted);

}  // namespace mesh
