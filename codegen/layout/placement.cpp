#include "codegen/layout/placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "meshrt/collectives.h"

namespace mesh {

bool Placement::uses(AxisId axis) const {
  for (const DimPlacement& dim : dims)
    if (std::find(dim.axes.begin(), dim.axes.end(), axis) != dim.axes.end()) return true;
  return std::any_of(partial.begin(), partial.end(), [&](const Partial& p) { return p.axis == axis; });
}

bool Placement::has_margins() const {
  return std::any_of(dims.begin(), dims.end(), [](const DimPlacement& dim) { return bool(dim.margin); });
}

Placement Placement::without_margins() const {
  Placement result = *this;
  for (DimPlacement& dim : result.dims) dim.margin = {};
  return result;
}

int64_t index_over(const MeshShape& mesh, const std::vector<AxisId>& axes, int64_t rank) {
  int64_t index = 0;
  for (AxisId axis : axes) index = index * mesh.axes[axis].size + mesh.coordinate(rank, axis);
  return index;
}

Range owned_block(const MeshShape& mesh, int64_t size, const DimPlacement& dim, int64_t rank) {
  const int64_t parts = mesh.size(dim.axes), index = index_over(mesh, dim.axes, rank);
  return {meshrt::part_begin(size, index, parts), meshrt::part_begin(size, index + 1, parts)};
}

std::vector<Range> owned(const MeshShape& mesh, int64_t size, const DimPlacement& dim, int64_t rank) {
  const Range range = owned_block(mesh, size, dim, rank);
  return range.size() ? std::vector<Range>{range} : std::vector<Range>{};
}

int64_t largest_extent(const MeshShape& mesh, int64_t size, const DimPlacement& dim) {
  const int64_t parts = mesh.size(dim.axes);
  return (size + parts - 1) / parts + dim.margin.before + dim.margin.after;
}

bool is_even(const MeshShape& mesh, int64_t size, const DimPlacement& dim) { return size % mesh.size(dim.axes) == 0; }

int64_t local_elements(const Graph& graph, const MeshShape& mesh, const ValueType& type, const Placement& placement) {
  int64_t n = 1;
  for (size_t i = 0; i < type.dims.size(); ++i)
    n *= largest_extent(mesh, graph.dim(type.dims[i]).size, placement.dims[i]);
  return n;
}

std::string axes_text(const MeshShape& mesh, const std::vector<AxisId>& axes, const char* between) {
  std::string text;
  for (AxisId axis : axes) text += (text.empty() ? "" : between) + mesh.axes[axis].name;
  return text;
}

std::string to_string(const Graph& graph, const MeshShape& mesh, const ValueType& type, const Placement& placement) {
  std::string text = "[";
  for (size_t i = 0; i < type.dims.size(); ++i) {
    text += (i ? ", " : "") + graph.dim(type.dims[i]).name;
    if (!placement.dims[i].axes.empty()) text += "/" + axes_text(mesh, placement.dims[i].axes);
    if (const Margin& margin = placement.dims[i].margin) text += fmt::format(" -{}+{}", margin.before, margin.after);
  }
  text += "]";
  for (const Partial& partial : placement.partial)
    text += std::string(" partial ") + meshrt::name_of(partial.reduce) + " over " + mesh.axes[partial.axis].name;
  return text;
}

}  // namespace mesh
