// model_of_replica.h: what one of several replicas trains (gradient/replicas.h): the spec's model with a part of the
// batch.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "codegen/graph/graph.h"
#include "codegen/layout/mesh.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// Elaborates the spec again, with other sizes of some dims.
using ElaborateWith =
    std::function<std::optional<Graph>(const std::map<std::string, std::string>& sizes, DiagnosticSink&)>;

/// E0426 where the model is another one with fewer samples: where sizes are made of the batch's.
std::optional<Graph> model_of_replica(const Graph& whole, const Replicas&, const ElaborateWith&, DiagnosticSink&);

}  // namespace mesh
