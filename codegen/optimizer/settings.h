// settings.h: what an optimizer is given, by name: a run that goes on tells what of it has changed.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

/// As meshrt::ProgramInfo has them; of a graph with an objective.
std::vector<std::pair<std::string, double>> settings_of(const Graph&);

}  // namespace mesh
