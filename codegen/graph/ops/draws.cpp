#include "codegen/graph/draws.h"

#include <algorithm>
#include <span>

#include "codegen/graph/dims.h"

namespace mesh {

RandomOp* draw_of(Node& node) { return std::get_if<RandomOp>(&node.op); }

void draw_by_set(Graph& graph) {
  if (!graph.sample_dim) return;
  for (const Body& body : graph.bodies)
    for (const NodeId id : body.nodes) {
      RandomOp* draw = draw_of(graph.node(id));
      if (draw == nullptr || !has(draw->counted, graph.sample_dim)) continue;
      std::stable_partition(draw->counted.begin(), draw->counted.end(),
                            [&](DimId dim) { return dim == graph.sample_dim; });
      draw->of_sample = 1;
      for (const DimId dim : std::span(draw->counted).subspan(1)) draw->of_sample *= graph.dim(dim).size;
    }
}

}  // namespace mesh
