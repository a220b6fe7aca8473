// plan_report.h: what `meshc plan` says of a compiled spec, for people and as JSON.
#pragma once
#include <string>

#include "codegen/compile.h"

namespace mesh {

/// The verdict, then every named value with its placement and local shape, every collective with its reason, memory and
/// flops.
std::string plan_text(const Compiled&, const SourceMap&);

/// "5.6 ms"
std::string time_text(double seconds);

/// schema, mesh, tensors, collectives, memory, budget, room, flops, predicted_seconds, exposed_seconds: one JSON
/// object.
std::string plan_json(const Compiled&, const SourceMap&);

}  // namespace mesh
