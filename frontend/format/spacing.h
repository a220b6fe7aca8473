// spacing.h: how many spaces stand between two tokens of a line.
#pragma once
#include "frontend/format/lines.h"

namespace mesh::format {

/// 0 or 1.
int spaces_between(const Placed& left, const Placed& right);

}  // namespace mesh::format
