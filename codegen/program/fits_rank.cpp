#include "codegen/program/fits_rank.h"

#include <algorithm>
#include <vector>

#include "codegen/program/largest_values.h"
#include "codegen/program/memory.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

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
  const std::vector<const Buffer*> largest = largest_buffers(program);
  if (largest.empty()) return true;
  const Buffer& most = *largest.front();
  const int64_t together = std::max(program.memory.arena + program.memory.own, bytes_of(most));
  if (together <= most_bytes_of_a_rank) return true;
  auto report = sink.error("E0221", most.span, "a rank would hold at least {}, and a process can address {}",
                           meshrt::bytes_text(together), meshrt::bytes_text(most_bytes_of_a_rank));
  report.here("{} takes {}", name_text(most), meshrt::bytes_text(bytes_of(most)));
  report.note(fmt::format("{} is {}", name_text(most), parts_text(program, most)));
  const Dim* whole = whole_dim(program, most);
  report.help(fmt::format("split it over more ranks (`{} -> AXIS` in a layout, `--mesh AXIS=N`), or make it smaller",
                          whole ? whole->name : program.sharded.graph.dim(most.dims.front().dim).name));
  return false;
}

}  // namespace mesh
