// tiles.h: a picture of which ranks hold which part of a value.
#pragma once
#include <string>

#include "codegen/layout/placement.h"

namespace mesh {

/// Of the first two dims that are split, the first down and the second across, in the fewest lines; "" for what is
/// whole.
std::string picture_of_tiles(const Graph&, const MeshShape&, const ValueType&, const Placement&);

}  // namespace mesh
