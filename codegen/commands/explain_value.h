// explain_value.h: `meshc explain SPEC VALUE`: why a value lies as it does, and what it would cost otherwise.
#pragma once
#include <string>
#include <vector>

#include "codegen/commands/options.h"

namespace mesh {

/// The exit code. UsageError for a name that the model has not.
int explain_values(const SpecOptions&, const OutputOptions&, const std::vector<std::string>& names);

}  // namespace mesh
