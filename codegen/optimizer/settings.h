// settings.h: what an optimizer is given, by name: a run that goes on tells what of it has changed.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/optimizer/outer_step.h"

namespace mesh {

/// As meshrt::ProgramInfo has them; of a graph with an objective. `sync`: how many steps replicas train apart before
/// `outer` brings them together; 0: there are none.
std::vector<std::pair<std::string, double>> settings_of(const Graph&, int64_t sync, const OuterStep& outer);

}  // namespace mesh
