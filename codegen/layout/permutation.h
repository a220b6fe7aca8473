// permutation.h: which member of a group gets the part that another holds, where parts as they are change owners.
#pragma once
#include <optional>
#include <vector>

#include "codegen/layout/placement.h"

namespace mesh {

/// A member of a group over `axes` holds the part of its index over them, and gets the part of its index over
/// `to_axes`: the same axes, each once, in another order.
struct Permutation {
  std::vector<AxisId> axes, to_axes;
};

/// How every rank gets the part that it has under `to` from one rank that holds it under `from`: nothing where a dim
/// has another number of parts on both sides, or where other sums are pending. Axes that no part moves along stand in
/// neither list; both are empty where all ranks hold already what they need.
std::optional<Permutation> permutation(const MeshShape&, const Placement& from, const Placement& to);

}  // namespace mesh
