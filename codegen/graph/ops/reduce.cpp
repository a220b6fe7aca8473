// reduce.cpp: broadcast and the reductions over named dims.
#include <cmath>

#include "codegen/graph/ops/definitions.h"

namespace mesh::ops {
namespace {

Types infer_broadcast(const Graph& graph, const Node& node) {
  require_operands(graph, node, 1, 1);
  ValueType type = operand(graph, node, 0);
  for (DimId dim : std::get<BroadcastOp>(node.op).dims) type.dims.push_back(dim);
  return {type};
}

std::vector<ValueId> broadcast_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                        const std::vector<bool>&) {
  return {sum_to(build, d[0], build.graph.node(id).inputs[0])};
}

Types infer_reduce(const Graph& graph, const Node& node) {
  require_operands(graph, node, 1, 1);
  require_dims(graph, node, 0, std::get<ReduceOp>(node.op).dims);
  ValueType type = operand(graph, node, 0);
  type.dims = without(type.dims, std::get<ReduceOp>(node.op).dims);
  return {type};
}

std::vector<Factor> reduce_factors(const Graph& graph, const Node& node) {
  std::vector<Factor> factors = factors_by_name(graph, node);
  for (Factor& factor : factors) factor.reduce = std::get<ReduceOp>(node.op).reduce;
  return factors;
}

PartialRule reduce_partial(const Graph&, const Node& node) {
  return std::get<ReduceOp>(node.op).reduce == Reduce::sum ? PartialRule::first : PartialRule::completes;
}

/// Sum: d spread over the reduced dims, which lie as those that were added up. Max and min: d goes to the entries that
/// equal the result, shared among ties.
std::vector<ValueId> reduce_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                     const std::vector<bool>&) {
  const ReduceOp op = std::get<ReduceOp>(build.graph.node(id).op);
  const ValueId x = build.graph.node(id).inputs[0], result = build.graph.node(id).results[0];
  if (op.reduce == Reduce::sum) {
    const std::vector<DimId> order = build.graph.type(x).dims;
    return {build.in_order(build.broadcast(d[0], op.dims), order)};
  }
  const Type element = build.graph.type(x).element;
  const ValueId chosen = build.cast(build.map(MapFunction::equal, {x, result}), element);
  const ValueId share = build.divide(d[0], build.reduce(Reduce::sum, chosen, op.dims));
  // A row of -inf alone (nothing kept) gives no gradient rather than a share of nothing.
  const ValueId finite = build.map(
      MapFunction::where,
      {build.map(MapFunction::equal, {build.map(MapFunction::abs, {result}), build.literal(HUGE_VAL, element)}),
       build.literal(0, element), share});
  return {build.multiply(chosen, finite)};
}

Types infer_arg_reduce(const Graph& graph, const Node& node) {
  const ArgReduceOp& op = std::get<ArgReduceOp>(node.op);
  require_operands(graph, node, 1, 1);
  require_dims(graph, node, 0, {op.dim});
  return {ValueType{Type::i32, op.dim, without(operand(graph, node, 0).dims, {op.dim})}};
}

std::vector<Factor> arg_reduce_factors(const Graph& graph, const Node& node) {
  std::vector<Factor> factors = factors_by_name(graph, node);
  for (Factor& factor : factors) factor.splittable = factor.operands[0] != std::get<ArgReduceOp>(node.op).dim;
  return factors;
}

std::string reduce_name(const Op& op, size_t) { return meshrt::name_of(std::get<ReduceOp>(op).reduce); }

Reduction reduce_reduction(const Graph&, const Node& node) {
  const auto& [reduce, dims] = std::get<ReduceOp>(node.op);
  return {reduce, dims};
}

/// The sum of equal numbers.
std::optional<double> count(const Graph& graph, const Node& node, const NumberOf& number_of) {
  const ReduceOp& op = std::get<ReduceOp>(node.op);
  if (op.reduce != Reduce::sum) return {};
  std::optional<double> sum = number_of(node.inputs[0]);
  if (sum)
    for (DimId dim : op.dims) *sum *= static_cast<double>(graph.dim(dim).size);
  return sum;
}

Dims reduced_order(const MemoryOrders& orders, const Node& node, size_t) {
  const ReduceOp& op = std::get<ReduceOp>(node.op);
  return filtered(orders.of(node.inputs[0]), [&](DimId dim) { return !has(op.dims, dim); });
}

/// The smallest position whose entry equals the row's extreme; the dim's last where none does (NaN).
std::vector<ValueId> expand_arg_reduce(GraphBuilder& build, const Node& node) {
  using F = MapFunction;
  const ArgReduceOp& op = std::get<ArgReduceOp>(node.op);
  const DimId dim[] = {op.dim};
  const ValueId x = node.inputs[0], best = build.reduce(op.largest ? Reduce::max : Reduce::min, x, dim);
  const double last = static_cast<double>(build.graph.dim(op.dim).size - 1);
  const ValueId where =
      build.map(F::where, {build.map(F::equal, {x, best}), build.position(op.dim), build.literal(last, Type::i32)});
  const ValueId found = build.reduce(Reduce::min, where, dim);
  build.graph.value(found).type.index_of = op.dim;
  return {found};
}

Horizons broadcast_horizon(const Graph&, const Node&, std::span<const Horizon> of) { return {of[0]}; }

Horizons reduce_horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  const ReduceOp& op = std::get<ReduceOp>(node.op);
  Horizon horizon = of[0];
  horizon.position.reset();
  for (const DimId dim : op.dims)
    horizon = without_dim(horizon, dim, op.reduce == Reduce::sum ? adds_up(graph, dim) : looks_through(graph, dim));
  return {horizon};
}

Horizons arg_reduce_horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  const DimId dim = std::get<ArgReduceOp>(node.op).dim;
  Horizon horizon = without_dim(of[0], dim, looks_through(graph, dim));
  horizon.position.reset();
  return {horizon};
}

}  // namespace

const OpDefinition& definition_of(const BroadcastOp&) {
  static constexpr OpDefinition broadcast{
      .name = "broadcast",
      .called = nullptr,
      .infer = infer_broadcast,
      .factors = factors_by_name,
      .partial = linear_in_first,
      .gradient = broadcast_gradient,
      .expand = nullptr,
      .reduction = nullptr,
      .number = number_of_operand,
      .names_dims_alike = true,
      .works_along_dims = false,
      .causality = broadcast_horizon,
      .flops = no_flops,
      .effort = costs<Effort::cheap>,
      .narrow = Narrow::handed_on,
      .reads_elements = in_nests,
      .formula = always_formula,
      .memory_order = MemoryOrder{MemoryOrder::Kind::spread, nullptr, nullptr},
  };
  return broadcast;
}

const OpDefinition& definition_of(const ReduceOp&) {
  static constexpr OpDefinition reduce{
      .name = "reduce",
      .called = reduce_name,
      .infer = infer_reduce,
      .factors = reduce_factors,
      .partial = reduce_partial,
      .gradient = reduce_gradient,
      .expand = nullptr,
      .reduction = reduce_reduction,
      .number = count,
      .names_dims_alike = true,
      .works_along_dims = false,
      .causality = reduce_horizon,
      .flops = one_each,
      .effort = costs<Effort::dear>,
      .narrow = Narrow::widened,
      .reads_elements = in_nests,
      .formula = no_formula,
      .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, reduced_order, nullptr},
  };
  return reduce;
}

const OpDefinition& definition_of(const ArgReduceOp&) {
  static constexpr OpDefinition arg_reduce{
      .name = "arg_reduce",
      .called = nullptr,
      .infer = infer_arg_reduce,
      .factors = arg_reduce_factors,
      .partial = completes,
      .gradient = nullptr,
      .expand = expand_arg_reduce,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = arg_reduce_horizon,
      .flops = one_each,
      .effort = costs<Effort::dear>,
      .narrow = Narrow::widened,
      .reads_elements = in_nests,
      .formula = no_formula,
      .memory_order = logical_order,
  };
  return arg_reduce;
}

}  // namespace mesh::ops
