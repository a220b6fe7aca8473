// redistribution.h: what a value sends that comes from one placement to another in one step, each element straight from
// a rank that holds it (meshrt/redistribute.h). Sums stay pending, and a value stays where it lies, on both sides.
#pragma once
#include <vector>

#include "codegen/layout/placement.h"
#include "meshrt/redistribute.h"

namespace mesh {

using DimPlacements = SharedList<DimPlacement>;

/// The axes along which elements move, in order: not those that cut a dim alike on both sides, before all others of it.
std::vector<AxisId> moving_axes(const DimPlacements& before, const DimPlacements& after);

/// A dim as the runtime is told of it. Of one that lies alike on both sides `extent` is what a rank holds.
meshrt::MovedDim moved_dim(const MeshShape&, int64_t size, int64_t extent, const DimPlacement& before,
                           const DimPlacement& after);

/// Of the rank that sends, keeps, or exchanges with others most; `axes`: those along which elements move.
meshrt::Redistribution::Busiest redistributed(const Graph&, const MeshShape&, const ValueType&,
                                              const std::vector<AxisId>& axes, const Placement& before,
                                              const Placement& after);
/// The rank that gets most gets no fewer messages: known at once, whatever the ranks.
int64_t least_messages(const Graph&, const MeshShape&, const ValueType&, const Placement& before,
                       const Placement& after);

}  // namespace mesh
