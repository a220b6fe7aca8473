// plan_all.h: `meshc plan --all`: a row for every layout of a spec and every mesh that it can have.
#pragma once
#include <nlohmann/json.hpp>
#include <vector>

#include "codegen/commands/session.h"

namespace mesh {

/// The plans of all layouts, the fastest first, without their tensors and collectives. With `-n N` each layout is
/// planned on every mesh of N ranks that has its axes, else on the mesh of the spec. What cannot be planned comes last,
/// with the first error in place of numbers. Nothing, and a report, where the model itself is wrong.
std::vector<nlohmann::ordered_json> plan_all(Session&);

/// The same as a table for people.
std::string table_of_plans(const std::vector<nlohmann::ordered_json>& plans);

}  // namespace mesh
