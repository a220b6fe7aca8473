// cumulative.cpp: running sums along one dim. That dim stays whole; all others may be split.
#include "codegen/graph/ops/definitions.h"

namespace mesh::ops {
namespace {

Types infer_cumulative(const Graph& graph, const Node& node) {
  require_operands(graph, node, 1, 1);
  require_dims(graph, node, 0, {std::get<CumulativeOp>(node.op).dim});
  return {operand(graph, node, 0)};
}

std::vector<Factor> cumulative_factors(const Graph& graph, const Node& node) {
  return factors_but_whole(graph, node, {std::get<CumulativeOp>(node.op).dim});
}

/// An element counts in every sum from it on: their gradients summed from the other end.
std::vector<ValueId> cumulative_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                         const std::vector<bool>&) {
  const CumulativeOp op = std::get<CumulativeOp>(build.graph.node(id).op);
  return {build.value(CumulativeOp{op.dim, !op.reverse}, {d[0]})};
}

/// A running sum from the beginning takes its operand element by element.
bool is_forward(const Graph&, const Node& node) { return !std::get<CumulativeOp>(node.op).reverse; }

Horizons cumulative_horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  const CumulativeOp& op = std::get<CumulativeOp>(node.op);
  if (op.reverse) return horizon_along(graph, node, of, {op.dim}, "adds up, from the end,");
  Horizon horizon = of[0];
  horizon.settled.clear();
  horizon.position.reset();
  return {horizon};
}

}  // namespace

const OpDefinition& definition_of(const CumulativeOp&) {
  static constexpr OpDefinition cumulative{
      .name = "cumsum",
      .called = nullptr,
      .infer = infer_cumulative,
      .factors = cumulative_factors,
      .partial = linear_in_first,
      .gradient = cumulative_gradient,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = cumulative_horizon,
      .flops = one_each,
      .effort = costs<Effort::dear>,
      .narrow = Narrow::widened,
      .reads_elements = is_forward,
      .formula = no_formula,
      .memory_order = order_of_operand,
  };
  return cumulative;
}

}  // namespace mesh::ops
