#include "codegen/layout/verify_placements.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/graph/builder.h"

namespace mesh {
namespace {

/// The axes that split dims or are summed over, and those along which a value that is split is not everywhere.
std::vector<AxisId> uses_of(const Placement& placement) {
  std::vector<AxisId> axes;
  for (const DimPlacement& dim : placement.dims) axes.insert(axes.end(), dim.axes.begin(), dim.axes.end());
  const std::vector<AxisId> splitting = axes;
  for (const Partial& partial : placement.partial) axes.push_back(partial.axis);
  for (const Where& where : placement.at)
    if (std::ranges::count(splitting, where.axis) > 0) axes.push_back(where.axis);
  return axes;
}

}  // namespace

void verify_placements(const ShardedGraph& sharded, const char* pass) {
  const Graph& graph = sharded.graph;
  for (uint32_t i = 0; i < sharded.placements.size(); ++i) {
    const Placement& placement = sharded.placements[i];
    std::vector<AxisId> axes = uses_of(placement);
    std::ranges::sort(axes);
    if (const auto twice = std::ranges::adjacent_find(axes); twice != axes.end())
      internal_error(fmt::format("after {}: axis `{}` occurs twice in the placement of %{} {}, {}", pass,
                                 sharded.layout.mesh.axes[*twice].name, i, graph.value(ValueId{i}).name,
                                 to_string(graph, sharded.layout.mesh, graph.type(ValueId{i}), placement)));
  }
}

}  // namespace mesh
