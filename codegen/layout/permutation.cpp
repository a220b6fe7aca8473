#include "codegen/layout/permutation.h"

#include <algorithm>
#include <map>

namespace mesh {
namespace {

/// Where the coordinate along an axis counts: in the index of which dim's parts, and how many parts one step is.
using Weight = std::pair<size_t, int64_t>;

std::map<AxisId, Weight> weights(const MeshShape& mesh, const Placement& placement) {
  std::map<AxisId, Weight> all;
  for (size_t i = 0; i < placement.dims.size(); ++i) {
    const std::vector<AxisId>& axes = placement.dims[i].axes;
    int64_t parts = 1;
    for (size_t at = axes.size(); at-- > 0;) {
      all[axes[at]] = {i, parts};
      parts *= mesh.axes[axes[at]].size;
    }
  }
  return all;
}

}  // namespace

std::optional<Permutation> permutation(const MeshShape& mesh, const Placement& from, const Placement& to) {
  if (from.partial != to.partial || from.at != to.at) return std::nullopt;
  for (size_t i = 0; i < from.dims.size(); ++i)
    if (mesh.size(from.dims[i].axes) != mesh.size(to.dims[i].axes)) return std::nullopt;
  const std::map<AxisId, Weight> before = weights(mesh, from), after = weights(mesh, to);
  const auto stays = [&](AxisId axis) {
    const auto was = before.find(axis), is = after.find(axis);
    if (was == before.end() || is == after.end()) return was == before.end() && is == after.end();
    return was->second == is->second;
  };
  Permutation moved;
  for (size_t i = 0; i < from.dims.size(); ++i) {
    std::ranges::copy_if(from.dims[i].axes, std::back_inserter(moved.axes), std::not_fn(stays));
    std::ranges::copy_if(to.dims[i].axes, std::back_inserter(moved.to_axes), std::not_fn(stays));
  }
  // Copies: those of a part go to the ranks that need it one by one, by their order on both sides.
  const std::vector<AxisId> of_parts = moved.axes, of_new_parts = moved.to_axes;
  for (const AxisId axis : of_new_parts)
    if (!contains(of_parts, axis)) moved.axes.push_back(axis);
  for (const AxisId axis : of_parts)
    if (!contains(of_new_parts, axis)) moved.to_axes.push_back(axis);
  return moved;
}

}  // namespace mesh
