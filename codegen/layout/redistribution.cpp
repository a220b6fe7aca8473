#include "codegen/layout/redistribution.h"

#include <algorithm>

namespace mesh {
namespace {

size_t shared_prefix(const DimPlacement& before, const DimPlacement& after) {
  if (before.deal != after.deal) return 0;
  const auto differ = std::ranges::mismatch(before.axes, after.axes);
  return static_cast<size_t>(differ.in1 - before.axes.begin());
}

meshrt::Split split_of(const MeshShape& mesh, const DimPlacement& dim) {
  meshrt::Split split;
  for (const AxisId axis : dim.axes)
    split.axes.push_back({static_cast<int>(mesh.axes[axis].size), static_cast<int>(mesh.axes[axis].stride)});
  split.deal = dim.deal;
  return split;
}

std::vector<meshrt::MovedDim> moved_dims(const Graph& graph, const MeshShape& mesh, const ValueType& type,
                                         const Placement& before, const Placement& after) {
  std::vector<meshrt::MovedDim> dims;
  for (size_t i = 0; i < type.dims.size(); ++i) {
    const int64_t size = graph.dim(type.dims[i]).size;
    dims.push_back(moved_dim(mesh, size, largest_extent(mesh, size, before.dims[i]), before.dims[i], after.dims[i]));
  }
  return dims;
}

/// Those axes that cut a dim alike before the moving ones do: along them groups may have other parts.
std::vector<AxisId> axes_between_groups(const Graph& graph, const MeshShape& mesh, const ValueType& type,
                                        const Placement& before, const Placement& after) {
  std::vector<AxisId> axes;
  for (size_t i = 0; i < type.dims.size(); ++i) {
    const DimPlacement &had = before.dims[i], &has = after.dims[i];
    const int64_t size = graph.dim(type.dims[i]).size;
    if (had == has || (!had.deal && !has.deal && is_even(mesh, size, had) && is_even(mesh, size, has))) continue;
    axes.insert(axes.end(), had.axes.begin(), had.axes.begin() + static_cast<std::ptrdiff_t>(shared_prefix(had, has)));
  }
  return axes;
}

/// The rank at place `index`, as the first axis counts slowest, and at the origin of the others.
int64_t rank_at(const MeshShape& mesh, const std::vector<AxisId>& axes, int64_t index) {
  int64_t rank = 0;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    rank += index % mesh.axes[*axis].size * mesh.axes[*axis].stride;
    index /= mesh.axes[*axis].size;
  }
  return rank;
}

}  // namespace

std::vector<AxisId> moving_axes(const DimPlacements& before, const DimPlacements& after) {
  std::vector<AxisId> axes;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    const auto prefix = static_cast<std::ptrdiff_t>(shared_prefix(before[i], after[i]));
    axes.insert(axes.end(), before[i].axes.begin() + prefix, before[i].axes.end());
    axes.insert(axes.end(), after[i].axes.begin() + prefix, after[i].axes.end());
  }
  std::ranges::sort(axes);
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

meshrt::MovedDim moved_dim(const MeshShape& mesh, int64_t size, int64_t extent, const DimPlacement& before,
                           const DimPlacement& after) {
  if (before == after) return {extent, {}, {}};
  return {size, split_of(mesh, before), split_of(mesh, after)};
}

meshrt::Redistribution::Busiest redistributed(const Graph& graph, const MeshShape& mesh, const ValueType& type,
                                              const std::vector<AxisId>& axes, const Placement& before,
                                              const Placement& after) {
  const std::vector<meshrt::MovedDim> dims = moved_dims(graph, mesh, type, before, after);
  meshrt::Group group;
  for (const AxisId axis : axes)
    group.axes.push_back({static_cast<int>(mesh.axes[axis].size), static_cast<int>(mesh.axes[axis].stride)});
  const std::vector<AxisId> between = axes_between_groups(graph, mesh, type, before, after);
  meshrt::Redistribution::Busiest most;
  for (int64_t other = 0; other < mesh.size(between); ++other) {
    group.members.clear();
    for (int64_t member = 0; member < mesh.size(axes); ++member)
      group.members.push_back(static_cast<int>(rank_at(mesh, between, other) + rank_at(mesh, axes, member)));
    const meshrt::Redistribution::Busiest busiest = meshrt::Redistribution::busiest(group, dims);
    most.sent = std::max(most.sent, busiest.sent);
    most.kept = std::max(most.kept, busiest.kept);
    most.messages = std::max(most.messages, busiest.messages);
  }
  return most;
}

int64_t least_messages(const Graph& graph, const MeshShape& mesh, const ValueType& type, const Placement& before,
                       const Placement& after) {
  return meshrt::Redistribution::least_messages(moved_dims(graph, mesh, type, before, after));
}

}  // namespace mesh
