// compare_plans.h: `meshc plan --layout a,b`: the plans of several layouts side by side.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mesh {

/// Of plans as `plan_json` gives them, a column each: time, bytes and memory; every collective of any of them with what
/// it sends in a step; values that do not lie alike under all of them.
std::string compared(const std::vector<nlohmann::ordered_json>& plans);

/// What changes from one plan to another: time, bytes and memory; of the collectives and values that are not alike what
/// each sends or holds before and after, with its line, those that change most first.
std::string changes_between(const nlohmann::ordered_json& before, const nlohmann::ordered_json& after);
/// The same for programs.
nlohmann::ordered_json changes_json(const nlohmann::ordered_json& before, const nlohmann::ordered_json& after);

/// "data: 2 model: 4"; the mesh's name where sizes are not known
std::string axes_of(const nlohmann::ordered_json& plan);

}  // namespace mesh
