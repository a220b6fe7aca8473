// least_bytes.h: what no way of moving a value from one placement to another can do without.
#pragma once
#include "codegen/layout/placement.h"

namespace mesh {

/// For the rank that has to send or receive most: the bytes that it needs and does not hold, or those that it must give
/// away for a partial value to be completed. Ranks with equal copies of a partial value each complete their own: no
/// movement is known that lets them share. Margins do not count.
int64_t least_bytes(const Graph&, const MeshShape&, const ValueType&, const Placement& from, const Placement& to);

}  // namespace mesh
