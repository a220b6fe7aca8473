// take.cpp: rows of a table by index, and the scatter-add that is its gradient. Where the table's dim is split, a rank
// gives the rows it owns and zero for the others: a partial sum.
#include "codegen/graph/ops/definitions.h"

namespace mesh::ops {
namespace {

Types infer_take(const Graph& graph, const Node& node) {
  require_operands(graph, node, 2, 2);
  require_dims(graph, node, 0, {std::get<TakeOp>(node.op).dim});
  require(operand(graph, node, 1).element == Type::i32, graph, node, "indices are of type i32");
  ValueType type = operand(graph, node, 0);
  const std::vector<DimId> row = without(type.dims, {std::get<TakeOp>(node.op).dim});
  type.dims = operand(graph, node, 1).dims;
  type.dims.insert(type.dims.end(), row.begin(), row.end());
  return {type};
}

std::vector<ValueId> take_backward(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                   const std::vector<bool>& wanted) {
  const Node& node = build.graph.node(id);
  const ValueId table = node.inputs[0], ids = node.inputs[1];
  if (!wanted[0]) return {{}, {}};
  return {build.value(TakeGradientOp{std::get<TakeOp>(node.op).dim, build.graph.type(table).dims}, {ids, d[0]}), {}};
}

Types infer_take_gradient(const Graph& graph, const Node& node) {
  const TakeGradientOp& op = std::get<TakeGradientOp>(node.op);
  require_operands(graph, node, 2, 2);
  require(operand(graph, node, 0).element == Type::i32, graph, node, "indices are of type i32");
  require(has(op.table, op.dim), graph, node, "the table lacks the dim of the indices");
  require_dims(graph, node, 1, operand(graph, node, 0).dims);
  require_dims(graph, node, 1, without(op.table, {op.dim}));
  ValueType type = operand(graph, node, 1);
  type.dims = op.table;
  return {type};
}

/// Rows are found by their numbers, which of a part are neighbours.
std::vector<Factor> with_rows(const Graph& graph, const Node& node, DimId rows) {
  std::vector<Factor> factors = factors_by_name(graph, node);
  for (Factor& factor : factors) factor.in_order = factor.operands[0] == rows || factor.results[0] == rows;
  return factors;
}
std::vector<Factor> take_factors(const Graph& graph, const Node& node) {
  return with_rows(graph, node, std::get<TakeOp>(node.op).dim);
}
std::vector<Factor> take_gradient_factors(const Graph& graph, const Node& node) {
  return with_rows(graph, node, std::get<TakeGradientOp>(node.op).dim);
}

double additions(const Graph& graph, const Node& node) {
  return static_cast<double>(graph.elements(operand(graph, node, 1)));
}

Dims order(const MemoryOrders& orders, const Node& node, size_t) {
  Dims order = orders.of(node.inputs[1]);
  for (DimId dim : orders.of(node.inputs[0]))
    if (dim != std::get<TakeOp>(node.op).dim) order.push_back(dim);
  return order;
}

/// Rows at positions that are known are a slice of the table.
Horizons take_horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  const DimId dim = std::get<TakeOp>(node.op).dim;
  const std::optional<PositionSum>& at = of[1].position;
  if (!of[0].upto.contains(dim) || !at || at->times.size() > 1)
    return horizon_along(graph, node, of, {dim}, "takes entries, at indices that are computed, of");
  const DimId to = at->times.empty() ? DimId{} : at->times.begin()->first;
  if (to && at->times.begin()->second != 1)
    return horizon_along(graph, node, of, {dim}, "goes otherwise than forwards through");
  Horizon horizon = shifted(of[0], dim, to, static_cast<int64_t>(at->plus));
  horizon.position.reset();
  return {horizon};
}
Horizons scatter_horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  return horizon_along(graph, node, of, {std::get<TakeGradientOp>(node.op).dim}, "adds up over");
}

}  // namespace

const OpDefinition& definition_of(const TakeOp&) {
  static constexpr OpDefinition take{
      .name = "take",
      .called = nullptr,
      .infer = infer_take,
      .factors = take_factors,
      .partial = linear_in_first,
      .gradient = take_backward,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = take_horizon,
      .flops = no_flops,
      .effort = costs<Effort::lookup>,
      .reads_elements = in_memory,
      .formula = no_formula,
      .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, order, nullptr},
  };
  return take;
}

const OpDefinition& definition_of(const TakeGradientOp&) {
  static constexpr OpDefinition take_gradient{
      .name = "take_gradient",
      .called = nullptr,
      .infer = infer_take_gradient,
      .factors = take_gradient_factors,
      .partial = linear_in_each,
      .gradient = nullptr,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = false,
      .causality = scatter_horizon,
      .flops = additions,
      .effort = costs<Effort::lookup>,
      .reads_elements = in_memory,
      .formula = no_formula,
      .memory_order = logical_order,
  };
  return take_gradient;
}

}  // namespace mesh::ops
