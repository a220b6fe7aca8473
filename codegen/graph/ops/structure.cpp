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
// gradient/differentiate.cpp.
const OpDefinition& definition_of(const LoopOp&) {
  static constexpr OpDefinition loop{
      .name = "repeat",
      .called = nullptr,
      .infer = infer_nothing,
      .factors = factors_by_name,
      .partial = completes,
      .gradient = nullptr,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = horizon_of_operands,
      .flops = no_flops,
      .effort = costs<Effort::dear>,
      .narrow = Narrow::handed_on,
      .reads_elements = in_memory,
      .formula = no_formula,
      .memory_order = logical_order,
  };
  return loop;
}

const OpDefinition& definition_of(const UpdateOp&) {
  static constexpr OpDefinition update{
      .name = "update",
      .called = nullptr,
      .infer = infer_update,
      .factors = factors_by_name,
      .partial = completes,
      .gradient = nullptr,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = horizon_of_operands,
      .flops = no_flops,
      .effort = costs<Effort::dear>,
      .narrow = Narrow::handed_on,
      .reads_elements = in_memory,
      .formula = no_formula,
      .memory_order = logical_order,
  };
  return update;
}

const OpDefinition& definition_of(const UntilOp&) {
  static constexpr OpDefinition until{
      .name = "until",
      .called = nullptr,
      .infer = infer_until,
      .factors = factors_by_name,
      .partial = completes,
      .gradient = nullptr,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = horizon_of_operands,
      .flops = no_flops,
      .effort = costs<Effort::dear>,
      .narrow = Narrow::widened,
      .reads_elements = in_memory,
      .formula = no_formula,
      .memory_order = logical_order,
  };
  return until;
}

const OpDefinition& definition_of(const ReshardOp&) {
  static constexpr OpDefinition reshard{
      .name = "reshard",
      .called = nullptr,
      .infer = infer_reshard,
      .factors = factors_by_name,
      .partial = completes,
      .gradient = nullptr,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = horizon_of_operands,
      .flops = no_flops,
      .effort = costs<Effort::dear>,
      .narrow = Narrow::handed_on,
      .reads_elements = in_nests,
      .formula = no_formula,
      .memory_order = order_of_operand,
  };
  return reshard;
}

}  // namespace mesh::ops
