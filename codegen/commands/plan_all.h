// plan_all.h: `meshc plan --all`: a row for every layout of a spec and every mesh that it can have.
#pragma once
#include <nlohmann/json.hpp>
#include <vector>

#include "codegen/commands/session.h"

namespace mesh {

/// Whether replicas train apart for some steps, so that its numbers are not those of other layouts.
bool trains_apart(const nlohmann::ordered_json& plan);

/// The plans of all layouts of the request's files, the fastest first, without their tensors and collectives. With `-n
/// N` each layout is planned on every mesh of N ranks that has its axes, else on the mesh of the spec. What cannot be
/// planned comes last, with the first error in place of numbers. Lints are at the `levels` of that sink; nothing is
/// reported.
std::vector<nlohmann::ordered_json> plans_of_layouts(CompileRequest, const DiagnosticSink& levels, SourceMap&);

/// The same, with a report on the model itself. Nothing where that is wrong.
std::vector<nlohmann::ordered_json> plan_all(Session&);

/// The same as a table for people.
std::string table_of_plans(const std::vector<nlohmann::ordered_json>& plans);

}  // namespace mesh
