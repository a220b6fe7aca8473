// softmax.cpp: softmax and log-softmax over one dim, log-sum-exp over several, with an optional operand that says which
// entries count. They are differentiated as they stand and then written as maps and reductions (graph/decompose.cpp),
// which any layout can split.
#include "codegen/graph/ops/definitions.h"

namespace mesh::ops {
namespace {

void require_row(const Graph& graph, const Node& node, const std::vector<DimId>& dims) {
  require_operands(graph, node, 1, 2);
  require_dims(graph, node, 0, dims);
  const bool masked = node.inputs.size() > 1;
  require(!masked || operand(graph, node, 1).element == Type::boolean, graph, node, "a mask is true or false");
  require(!masked || without(operand(graph, node, 1).dims, operand(graph, node, 0).dims).empty(), graph, node,
          "the mask has more dims than the value");
}

Types infer_softmax(const Graph& graph, const Node& node) {
  require_row(graph, node, {std::get<SoftmaxOp>(node.op).dim});
  return {operand(graph, node, 0)};
}
Types infer_log_softmax(const Graph& graph, const Node& node) {
  require_row(graph, node, {std::get<LogSoftmaxOp>(node.op).dim});
  return {operand(graph, node, 0)};
}
Types infer_log_sum_exp(const Graph& graph, const Node& node) {
  require_row(graph, node, std::get<LogSumExpOp>(node.op).dims);
  ValueType type = operand(graph, node, 0);
  type.dims = without(type.dims, std::get<LogSumExpOp>(node.op).dims);
  return {type};
}

double flops(const Graph& graph, const Node& node) {
  return 5.0 * static_cast<double>(graph.elements(operand(graph, node, 0)));
}

/// d_x = y (d - sum(d y))
std::vector<ValueId> softmax_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                      const std::vector<bool>&) {
  const Node node = build.graph.node(id);
  const ValueId y = node.results[0];
  const DimId dim[] = {std::get<SoftmaxOp>(node.op).dim};
  std::vector<ValueId> result(node.inputs.size());
  result[0] = build.multiply(y, build.subtract(d[0], build.reduce(Reduce::sum, build.multiply(d[0], y), dim)));
  return result;
}

/// Entries that do not count have no gradient, whatever the formula gives for them.
ValueId where_kept(GraphBuilder& build, const Node& node, ValueId d) {
  if (node.inputs.size() < 2) return d;
  return build.map(MapFunction::where, {node.inputs[1], d, build.literal(0, build.graph.type(d).element)});
}

/// d_x = d - exp(y) sum(d)
std::vector<ValueId> log_softmax_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                          const std::vector<bool>&) {
  const Node node = build.graph.node(id);
  const DimId dim[] = {std::get<LogSoftmaxOp>(node.op).dim};
  const ValueId kept = where_kept(build, node, d[0]);
  std::vector<ValueId> result(node.inputs.size());
  result[0] = where_kept(build, node,
                         build.subtract(kept, build.multiply(build.map(MapFunction::exp, {node.results[0]}),
                                                             build.reduce(Reduce::sum, kept, dim))));
  return result;
}

/// d_x = exp(x - y) d
std::vector<ValueId> log_sum_exp_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                          const std::vector<bool>&) {
  const Node node = build.graph.node(id);
  const ValueId share = build.map(MapFunction::exp, {build.subtract(node.inputs[0], node.results[0])});
  std::vector<ValueId> result(node.inputs.size());
  result[0] = where_kept(build, node, build.multiply(share, d[0]));
  return result;
}

}  // namespace

const OpDefinition softmax{"softmax", infer_softmax, factors_by_name, completes, flops, softmax_gradient};
const OpDefinition log_softmax{"log_softmax", infer_log_softmax,   factors_by_name, completes,
                               flops,         log_softmax_gradient};
const OpDefinition log_sum_exp{"log_sum_exp", infer_log_sum_exp,   factors_by_name, completes,
                               flops,         log_sum_exp_gradient};

}  // namespace mesh::ops
