#include "codegen/layout/print_sharded.h"

#include <fmt/format.h>

#include "codegen/graph/print_graph.h"

namespace mesh {

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return "all_reduce";
    case CollectiveKind::reduce_scatter: return "reduce_scatter";
    case CollectiveKind::all_gather: return "all_gather";
    case CollectiveKind::all_to_all: return "all_to_all";
    case CollectiveKind::permute: return "permute";
    case CollectiveKind::redistribute: return "redistribute";
    case CollectiveKind::halo: return "halo";
    case CollectiveKind::ring: return "ring";
    case CollectiveKind::broadcast: return "broadcast";
    case CollectiveKind::reduce: return "reduce";
    case CollectiveKind::slice: return "slice";
    case CollectiveKind::term: return "term";
  }
  return "?";
}

std::string print_sharded(const ShardedGraph& sharded) {
  std::string text = "mesh " + sharded.layout.mesh.name + " {";
  for (const MeshAxis& axis : sharded.layout.mesh.axes) text += fmt::format(" {}: {}", axis.name, axis.size);
  text += " }\n";
  text += print_graph(sharded.graph, [&](ValueId id) {
    return to_string(sharded.graph, sharded.layout.mesh, sharded.graph.type(id), sharded.placement(id));
  });
  for (size_t i = 0; i < sharded.steps.size(); ++i) {
    const ReshardStep& step = sharded.steps[i];
    std::string over;
    for (AxisId axis : step.axes) over += (over.empty() ? "" : " * ") + sharded.layout.mesh.axes[axis].name;
    text += fmt::format("#{} {} over {}, {} bytes: {}\n", i, name_of(step.kind), over, step.bytes, step.reason);
  }
  return text;
}

}  // namespace mesh
