// attention.cpp: softmax(mask(q k * scale)) v in one, of which only the log-sum-exp of each row is kept for the
// gradient. The head's dim stays whole; batch, heads and query positions may be split, and with the latter the keys,
// whose parts then go round: each rank's queries meet one after the other. Heads of queries may share those of keys:
// along dims that keys and values lack. Queries, keys and values may be bf16 or f16, and so is then the gradient that
// comes in: all that is computed is f32.
#include "codegen/graph/ops/definitions.h"

namespace mesh::ops {
namespace {

void require_attention(const Graph& graph, const Node& node, const AttentionOp& op, size_t operands) {
  require_operands(graph, node, operands, operands);
  require_dims(graph, node, 0, {op.query, op.head_dim});
  require_dims(graph, node, 1, {op.key, op.head_dim});
  require_dims(graph, node, 2, {op.key, op.value_dim});
  for (const size_t i : {size_t{1}, size_t{2}, size_t{5}})
    if (i < operands) require_same_element(graph, node, i);
}

Types infer_attention(const Graph& graph, const Node& node) {
  const AttentionOp& op = std::get<AttentionOp>(node.op);
  require_attention(graph, node, op, 3);
  const ValueType& q = operand(graph, node, 0);
  ValueType out{computed_in(q.element), {}, without(q.dims, {op.head_dim})}, rows = out;
  out.dims.push_back(op.value_dim);
  // A row of log-sums is a head's: the queries are innermost, behind those that share keys.
  const std::vector<DimId> own = without(without(rows.dims, operand(graph, node, 1).dims), {op.query});
  rows.dims = without(without(rows.dims, own), {op.query});
  rows.dims.insert(rows.dims.end(), own.begin(), own.end());
  rows.dims.push_back(op.query);
  return {out, rows};
}

/// The pairs of queries and keys that its mask leaves.
Band band_of(const AttentionOp& op) { return {op.query, op.key, op.least, op.most}; }

std::vector<Factor> factors_of(const Graph& graph, const Node& node, const AttentionOp& op) {
  std::vector<Factor> factors = factors_but_whole(graph, node, {op.key, op.head_dim, op.value_dim});
  const Band band = band_of(op);
  std::ranges::find(factors, op.query, [](const Factor& one) { return one.operands[0]; })->band = band;
  Factor ring{std::vector<DimId>(node.inputs.size()), std::vector<DimId>(node.results.size()),
              std::min(graph.dim(op.query).size, graph.dim(op.key).size)};
  const auto position = [&](ValueId value) {
    return has(graph.type(value).dims, op.query) ? op.query : op.key;  // each has one of them
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) ring.operands[i] = position(node.inputs[i]);
  for (size_t i = 0; i < node.results.size(); ++i) ring.results[i] = position(node.results[i]);
  ring.circulates = true;
  ring.band = band;
  factors.push_back(std::move(ring));
  return factors;
}

std::vector<Factor> attention_factors(const Graph& graph, const Node& node) {
  return factors_of(graph, node, std::get<AttentionOp>(node.op));
}

/// One product of queries and the keys that they see: of a causal mask half.
double product_flops(const Graph& graph, const Node& node, const AttentionOp& op) {
  const int64_t queries = graph.dim(op.query).size, keys = graph.dim(op.key).size;
  const int64_t elements = graph.elements(operand(graph, node, 0)) / queries;
  const auto of_a_query = static_cast<double>(elements);
  return 2 * of_a_query * band_of(op).pairs({0, queries}, {0, keys});
}

double forward_flops(const Graph& graph, const Node& node) {
  return 2 * product_flops(graph, node, std::get<AttentionOp>(node.op));
}

std::vector<ValueId> attention_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                        const std::vector<bool>&) {
  const Node node = build.graph.node(id);
  const ValueId d_out = build.narrow(d[0], build.graph.type(node.inputs[0]).element);
  const NodeId back =
      build.append(AttentionGradientOp{std::get<AttentionOp>(node.op)},
                   {node.inputs[0], node.inputs[1], node.inputs[2], node.results[0], node.results[1], d_out});
  return build.graph.node(back).results;
}

Types infer_gradient(const Graph& graph, const Node& node) {
  require_attention(graph, node, std::get<AttentionGradientOp>(node.op).forward, 6);
  Types types{operand(graph, node, 0), operand(graph, node, 1), operand(graph, node, 2)};
  for (ValueType& type : types) type.element = computed_in(type.element);
  return types;
}

std::vector<Factor> gradient_factors(const Graph& graph, const Node& node) {
  return factors_of(graph, node, std::get<AttentionGradientOp>(node.op).forward);
}

/// Five products in place of two: scores are computed again.
double gradient_flops(const Graph& graph, const Node& node) {
  return 5 * product_flops(graph, node, std::get<AttentionGradientOp>(node.op).forward);
}

std::string result_name(const Op&, size_t result) { return result == 1 ? "log_sum" : "attention"; }

/// A query sees what its mask leaves of the keys.
Horizons attention_causality(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  const AttentionOp& op = std::get<AttentionOp>(node.op);
  Horizon all = joined(of);
  all.settled.clear();
  const Band band = band_of(op);
  if (band.least) all.settled.push_back({op.key, op.query, 1 - *band.least, {}});
  return {2, without_dim(all, op.key, looks_through(graph, op.key))};
}

Horizons gradient_causality(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  const AttentionOp& op = std::get<AttentionGradientOp>(node.op).forward;
  return horizon_along(graph, node, of, {op.query, op.key}, "sends gradients through");
}

}  // namespace

const OpDefinition& definition_of(const AttentionOp&) {
  static constexpr OpDefinition attention{
      .name = "attention",
      .called = result_name,
      .infer = infer_attention,
      .factors = attention_factors,
      .partial = completes,
      .gradient = attention_gradient,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = false,
      .causality = attention_causality,
      .flops = forward_flops,
      .effort = costs<Effort::attention>,
      .narrow = Narrow::multiplied,
      .reads_elements = in_memory,
      .formula = no_formula,
      .memory_order = logical_order,
  };
  return attention;
}

const OpDefinition& definition_of(const AttentionGradientOp&) {
  static constexpr OpDefinition attention_gradient{
      .name = "attention_gradient",
      .called = nullptr,
      .infer = infer_gradient,
      .factors = gradient_factors,
      .partial = completes,
      .gradient = nullptr,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = false,
      .causality = gradient_causality,
      .flops = gradient_flops,
      .effort = costs<Effort::attention>,
      .narrow = Narrow::multiplied,
      .reads_elements = in_memory,
      .formula = no_formula,
      .memory_order = logical_order,
  };
  return attention_gradient;
}

}  // namespace mesh::ops
