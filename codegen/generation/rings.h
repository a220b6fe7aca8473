// rings.h: caches of what a position needs and no more. Nothing is computed for positions behind it; where it needs
// only the last few, a cache has a slot for each of these, which come round: position p lies in slot p modulo their
// number.
#pragma once
#include "codegen/generation/one_position.h"
#include "codegen/graph/builder.h"

namespace mesh {

/// Whether a position needs only the last few positions of a cache.
bool has_windows(const OnePosition&);

/// Sets the bounds of the graph, and makes rings of its caches where they may be.
void keep_needed(OnePosition&);

/// [slots]: which position lies in each slot of a ring, of those up to `position`. What is said of slots that no
/// position has come to yet means nothing.
ValueId positions_in_ring(GraphBuilder&, ValueId position, DimId slots);

}  // namespace mesh
