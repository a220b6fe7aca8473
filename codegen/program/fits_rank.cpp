#include "codegen/program/fits_rank.h"

#include <algorithm>
#include <vector>

#include "codegen/program/extent.h"
#include "codegen/program/memory.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

int64_t bytes(const Buffer& buffer) { return buffer.elements * static_cast<int64_t>(meshrt::size_of(buffer.type)); }

std::string name_of(const Buffer& buffer) {
  return fmt::format("`{}`", buffer.path.empty() ? buffer.name : buffer.path);
}

/// "[batch, seq/data], of which a rank holds 128 x 64"
std::string parts(const Program& program, const Buffer& buffer) {
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

/// The largest dim that no axis splits.
const Dim* whole_dim(const Program& program, const Buffer& buffer) {
  const Dim* largest = nullptr;
  for (const LocalDim& local : buffer.dims) {
    const Dim& dim = program.sharded.graph.dim(local.dim);
    if (local.placement.axes.empty() && (!largest || dim.size > largest->size)) largest = &dim;
  }
  return largest;
}

}  // namespace

bool fits_a_rank(const Program& program, DiagnosticSink& sink) {
  std::vector<const Buffer*> largest;
  for (const Buffer& buffer : program.buffers)
    if (!buffer.view_of && buffer.offset >= 0) largest.push_back(&buffer);
  std::ranges::stable_sort(largest, std::greater{}, [](const Buffer* buffer) { return bytes(*buffer); });
  if (largest.empty()) return true;
  const Buffer& most = *largest.front();
  const int64_t together = std::max(program.memory.arena + program.memory.own, bytes(most));
  if (together <= most_bytes_of_a_rank) return true;
  auto report = sink.error("E0221", most.span, "a rank would hold at least {}, and a process can address {}",
                           meshrt::bytes_text(together), meshrt::bytes_text(most_bytes_of_a_rank));
  report.here("{} takes {}", name_of(most), meshrt::bytes_text(bytes(most)));
  report.note(fmt::format("{} is {}", name_of(most), parts(program, most)));
  const Dim* whole = whole_dim(program, most);
  report.help(fmt::format("split it over more ranks (`{} -> AXIS` in a layout, `--mesh AXIS=N`), or make it smaller",
                          whole ? whole->name : program.sharded.graph.dim(most.dims.front().dim).name));
  return false;
}

}  // namespace mesh
