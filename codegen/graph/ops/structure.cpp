// structure.cpp: what gives the graph its shape rather than a number: loops, updates of what is stored, movements
// between placements.
#include "codegen/graph/ops/definitions.h"

namespace mesh::ops {
namespace {

Types infer_nothing(const Graph&, const Node&) { return {}; }

Types infer_update(const Graph& graph, const Node& node) {
  require_operands(graph, node, 1, 1);
  const ValueType &stored = graph.stored[std::get<UpdateOp>(node.op).stored.index].type,
                  &next = operand(graph, node, 0);
  const bool same = stored.element == next.element && without(stored.dims, next.dims).empty() &&
                    without(next.dims, stored.dims).empty();
  require(same, graph, node, "not the type of what it updates");
  return {};
}

Types infer_until(const Graph& graph, const Node& node) {
  require_operands(graph, node, 1, 1);
  require(operand(graph, node, 0).element == Type::boolean && operand(graph, node, 0).dims.empty(), graph, node,
          "a condition is true or false");
  return {};
}

Types infer_reshard(const Graph& graph, const Node& node) {
  require_operands(graph, node, 1, 1);
  return {operand(graph, node, 0)};
}

}  // namespace

// A loop's results are made by whoever builds it, with its carries and collects; its gradient is
// graph/differentiate.cpp.
const OpDefinition loop{"repeat", infer_nothing, factors_by_name, completes, no_flops, nullptr};
const OpDefinition update{"update", infer_update, factors_by_name, completes, no_flops, nullptr};
const OpDefinition until{"until", infer_until, factors_by_name, completes, no_flops, nullptr};
const OpDefinition reshard{"reshard", infer_reshard, factors_by_name, completes, no_flops, nullptr};

}  // namespace mesh::ops
