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

double one_each(const Graph& graph, const Node& node) {
  return static_cast<double>(graph.elements(operand(graph, node, 0)));
}

/// Sum: d spread over the reduced dims. Max and min: d goes to the entries that equal the result, shared among ties.
std::vector<ValueId> reduce_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                     const std::vector<bool>&) {
  const ReduceOp op = std::get<ReduceOp>(build.graph.node(id).op);
  if (op.reduce == Reduce::sum) return {build.broadcast(d[0], op.dims)};
  const ValueId x = build.graph.node(id).inputs[0], result = build.graph.node(id).results[0];
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

}  // namespace

const OpDefinition broadcast{"broadcast",     infer_broadcast, factors_by_name,
                             linear_in_first, no_flops,        broadcast_gradient};
const OpDefinition reduce{"reduce", infer_reduce, reduce_factors, reduce_partial, one_each, reduce_gradient};
const OpDefinition arg_reduce{"arg_reduce", infer_arg_reduce, arg_reduce_factors, completes, one_each, nullptr};

}  // namespace mesh::ops
