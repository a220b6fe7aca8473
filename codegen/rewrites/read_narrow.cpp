#include "codegen/rewrites/read_narrow.h"

#include <optional>

#include "codegen/graph/op.h"
#include "codegen/graph/verify_graph.h"

namespace mesh {
namespace {

/// What the value is in fewer bits, where it is only widened.
std::optional<ValueId> narrow_source(const Graph& graph, ValueId value) {
  const Node& from = graph.node(graph.value(value).producer);
  if (!widens(graph, from) || graph.type(from.inputs[0]).dims != graph.type(value).dims) return {};
  return from.inputs[0];
}

/// One of its operands: two of bf16 are added up otherwise.
void read_operand(const Graph& graph, Node& product) {
  for (const size_t side : {1, 0})
    if (const std::optional<ValueId> narrow = narrow_source(graph, product.inputs[side])) {
      product.inputs[side] = *narrow;
      return;
    }
}

}  // namespace

void read_narrow(Graph& graph) {
  for (const Body& body : graph.bodies)
    for (const NodeId id : body.nodes)
      if (std::holds_alternative<DotOp>(graph.node(id).op)) read_operand(graph, graph.node(id));
  verify_graph(graph, "read_narrow");
}

}  // namespace mesh
