#include "codegen/rewrites/decompose.h"

#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"

namespace mesh {

void decompose(Graph& graph) {
  expand_nodes(graph, [](GraphBuilder& build, NodeId id) -> std::vector<ValueId> {
    const Node node = build.graph.node(id);
    const auto expand = definition(node.op).expand;
    return expand ? expand(build, node) : std::vector<ValueId>{};
  });
  verify_graph(graph, "decompose");
}

}  // namespace mesh
