// plan_report.h: what `meshc plan` says of a compiled spec, for people and as JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "codegen/compile.h"
#include "codegen/layout/cost.h"

namespace mesh {

/// The verdict, then every named value with its placement and local shape, every collective with its reason, memory and
/// flops.
std::string plan_text(const Compiled&, const SourceMap&);

/// Of a layout that says `auto`: the rules with what each is worth, how many were tried, whether that proves anything.
nlohmann::ordered_json found_json(const FoundLayout&);

/// schema, mesh, tensors, collectives, memory, budget, room, flops, predicted_seconds, exposed_seconds: one JSON
/// object.
nlohmann::ordered_json plan_json(const Compiled&, const SourceMap&);

}  // namespace mesh
