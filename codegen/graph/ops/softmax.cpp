// softmax.cpp: softmax and log-softmax over one dim, log-sum-exp over several, with an optional operand that says which
// entries count. They are differentiated as they stand and then written as maps and reductions
// (rewrites/decompose.cpp), which any layout can split.
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

double softmax_flops(const Graph& graph, const Node& node) {
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

// ---- in simpler ops

using F = MapFunction;

/// The numbers of one row: its maximum (0 where nothing counts), exp(x - maximum) where it counts, and their sum.
struct Row {
  ValueId top, exponential, total;
};

Row softmax_row(GraphBuilder& build, const Node& node, const std::vector<DimId>& dims) {
  const ValueId x = node.inputs[0];
  const Type element = build.graph.type(x).element;
  const bool masked = node.inputs.size() > 1;
  const auto number = [&](double value) { return build.literal(value, element); };
  const auto keep = [&](ValueId value, double other) {
    return masked ? build.map(F::where, {node.inputs[1], value, number(other)}) : value;
  };
  Row row;
  row.top = build.reduce(Reduce::max, keep(x, -INFINITY), dims);
  if (masked) row.top = build.map(F::where, {build.map(F::equal, {row.top, number(-INFINITY)}), number(0), row.top});
  row.exponential = keep(build.map(F::exp, {build.subtract(x, row.top)}), 0);
  row.total = build.reduce(Reduce::sum, row.exponential, dims);
  return row;
}

std::vector<ValueId> expand_softmax(GraphBuilder& build, const Node& node) {
  const Row row = softmax_row(build, node, {std::get<SoftmaxOp>(node.op).dim});
  ValueId total = row.total;
  if (node.inputs.size() > 1) {  // a row with nothing kept gives 0
    const Type element = build.graph.type(total).element;
    total = build.map(F::where,
                      {build.map(F::equal, {total, build.literal(0, element)}), build.literal(1, element), total});
  }
  return {build.multiply(row.exponential, build.map(F::reciprocal, {total}))};
}

std::vector<ValueId> expand_log_sum_exp(GraphBuilder& build, const Node& node) {
  const Row row = softmax_row(build, node, std::get<LogSumExpOp>(node.op).dims);
  return {build.add(build.map(F::log, {row.total}), row.top)};
}

std::vector<ValueId> expand_log_softmax(GraphBuilder& build, const Node& node) {
  const Row row = softmax_row(build, node, {std::get<LogSoftmaxOp>(node.op).dim});
  const ValueId y = build.subtract(node.inputs[0], build.add(build.map(F::log, {row.total}), row.top));
  if (node.inputs.size() < 2) return {y};
  return {build.map(F::where, {node.inputs[1], y, build.literal(-INFINITY, build.graph.type(y).element)})};
}

// ---- of which positions they are made

/// Where entries do not count.
std::vector<Settled> uncounted(std::span<const Horizon> of) {
  std::vector<Settled> facts;
  if (of.size() > 1)
    for (const Settled& fact : of[1].settled)
      if (fact.number == 0.0) facts.push_back(fact);
  for (const Settled& fact : of[0].settled)
    if (fact.number == -INFINITY) facts.push_back(fact);
  return facts;
}

/// What an entry that does not count would bring in is not in its row.
Horizon counted(std::span<const Horizon> of) {
  Horizon row = joined(of);
  const std::vector<Settled> out = uncounted(of);
  row.settled.insert(row.settled.end(), out.begin(), out.end());
  return row;
}

Horizons softmax_horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  const DimId dim = std::get<SoftmaxOp>(node.op).dim;
  Horizon row = without_dim(counted(of), dim, looks_through(graph, dim));
  for (const Settled& fact : uncounted(of))
    if (fact.late == dim || fact.early == dim) row.settled.push_back({fact.late, fact.early, fact.by, 0.0});
  return {row};
}

/// An element is made of itself and of its row.
Horizons log_softmax_horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  const DimId dim = std::get<LogSoftmaxOp>(node.op).dim;
  const Horizon parts[] = {joined(of), without_dim(counted(of), dim, looks_through(graph, dim))};
  return {joined(parts)};
}

Horizons log_sum_exp_horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  Horizon row = counted(of);
  for (const DimId dim : std::get<LogSumExpOp>(node.op).dims) row = without_dim(row, dim, looks_through(graph, dim));
  return {row};
}

}  // namespace

const OpDefinition& definition_of(const SoftmaxOp&) {
  static constexpr OpDefinition softmax{
      .name = "softmax",
      .called = nullptr,
      .infer = infer_softmax,
      .factors = factors_by_name,
      .partial = completes,
      .gradient = softmax_gradient,
      .expand = expand_softmax,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = softmax_horizon,
      .flops = softmax_flops,
      .effort = costs<Effort::dear>,
      .narrow = Narrow::widened,
      .reads_elements = in_memory,
      .formula = no_formula,
      .memory_order = logical_order,
  };
  return softmax;
}

const OpDefinition& definition_of(const LogSoftmaxOp&) {
  static constexpr OpDefinition log_softmax{
      .name = "log_softmax",
      .called = nullptr,
      .infer = infer_log_softmax,
      .factors = factors_by_name,
      .partial = completes,
      .gradient = log_softmax_gradient,
      .expand = expand_log_softmax,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = log_softmax_horizon,
      .flops = softmax_flops,
      .effort = costs<Effort::dear>,
      .narrow = Narrow::widened,
      .reads_elements = in_memory,
      .formula = no_formula,
      .memory_order = logical_order,
  };
  return log_softmax;
}

const OpDefinition& definition_of(const LogSumExpOp&) {
  static constexpr OpDefinition log_sum_exp{
      .name = "log_sum_exp",
      .called = nullptr,
      .infer = infer_log_sum_exp,
      .factors = factors_by_name,
      .partial = completes,
      .gradient = log_sum_exp_gradient,
      .expand = expand_log_sum_exp,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = log_sum_exp_horizon,
      .flops = softmax_flops,
      .effort = costs<Effort::dear>,
      .narrow = Narrow::widened,
      .reads_elements = in_memory,
      .formula = no_formula,
      .memory_order = logical_order,
  };
  return log_sum_exp;
}

}  // namespace mesh::ops
