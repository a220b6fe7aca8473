#include "codegen/generation/write_out_windows.h"

#include <algorithm>

#include "codegen/generation/horizons.h"
#include "codegen/graph/by_neighbours.h"
#include "codegen/graph/rewrite.h"

namespace mesh {

void write_out_windows(Graph& graph) {
  const Horizons horizons = horizons_of(graph, graph.generation->input, graph.generation->along);
  expand_nodes(graph, [&](GraphBuilder& build, NodeId id) {
    const Node node = build.graph.node(id);
    const auto is_sequence = [&](DimId dim) {
      return std::ranges::any_of(node.inputs,
                                 [&](ValueId input) { return horizons.of[input.index].upto.contains(dim); });
    };
    return by_neighbours(build, node, is_sequence);
  });
}

}  // namespace mesh
