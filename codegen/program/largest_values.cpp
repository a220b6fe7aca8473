#include "codegen/program/largest_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/program/extent.h"

namespace mesh {

int64_t bytes_of(const Buffer& buffer) { return buffer.elements * static_cast<int64_t>(meshrt::size_of(buffer.type)); }

std::vector<const Buffer*> largest_buffers(const Program& program) {
  std::vector<const Buffer*> largest;
  for (const Buffer& buffer : program.buffers)
    if (!buffer.view_of && buffer.offset >= 0) largest.push_back(&buffer);
  std::ranges::stable_sort(largest, std::greater{}, [](const Buffer* buffer) { return bytes_of(*buffer); });
  return largest;
}

std::string name_text(const Buffer& buffer) {
  return fmt::format("`{}`", buffer.path.empty() ? buffer.name : buffer.path);
}

std::string parts_text(const Program& program, const Buffer& buffer) {
  const Graph& graph = program.sharded.graph;
  std::string dims, held;
  for (const LocalDim& dim : buffer.dims) {
    const std::vector<AxisId>& axes = dim.placement.axes;
    dims += fmt::format("{}{}{}", dims.empty() ? "" : ", ", graph.dim(dim.dim).name,
                        axes.empty() ? "" : "/" + axes_text(program.sharded.layout.mesh, axes));
    held += fmt::format("{}{}", held.empty() ? "" : " x ", largest_extent(program, dim));
  }
  return fmt::format("[{}], of which a rank holds {}", dims, held);
}

}  // namespace mesh
