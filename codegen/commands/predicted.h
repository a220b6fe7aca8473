// predicted.h: what a program computes that predicts values.
#pragma once
#include <string>
#include <vector>

#include "codegen/compile.h"

namespace mesh {

/// UsageError for names of gradients and parameters.
ValuesEntry predicted(const std::vector<std::string>& names);

}  // namespace mesh
