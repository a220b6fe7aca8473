// description.h: machine descriptions as text and JSON: what was measured, and what one says.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "codegen/commands/measure/measure.h"
#include "codegen/layout/machine.h"

namespace mesh {

/// "2 ranks", "2 hosts with 2 ranks each"
std::string ranks_text(const Measured&);

/// The YAML that `--machine` reads.
std::string description(const Measured&, const std::string& name);
/// As programs and plans name it.
std::string hash_of_description(const std::string& text);

/// A line on each thing that was measured, for people.
std::string what_was_found(const Measured&);
nlohmann::ordered_json measured_json(const Measured&, const std::string& name, const std::string& hash);

std::string machine_text(const Machine&);
nlohmann::ordered_json machine_json(const Machine&);

}  // namespace mesh
