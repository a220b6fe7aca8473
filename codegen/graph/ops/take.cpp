// take.cpp: rows of a table by index, and its transpose, rows reduced into a table at their indices; each is the
// other's gradient. Dims that table and indices share pair up: each of their elements is a lookup of its own. Where the
// table's dim is split, a rank reads the rows it owns and zero for the others: a partial sum; where the indices are, it
// reduces those it has.
#include "codegen/graph/ops/definitions.h"

namespace mesh::ops {
namespace {

Types infer_take(const Graph& graph, const Node& node) {
  const DimId dim = std::get<TakeOp>(node.op).dim;
  require_operands(graph, node, 2, 2);
  require_dims(graph, node, 0, {dim});
  require(operand(graph, node, 1).element == Type::i32, graph, node, "indices are of type i32");
  require(!has(operand(graph, node, 1).dims, dim), graph, node, "the indices have the dim that they count");
  ValueType type = operand(graph, node, 0);
  const Dims& ids = operand(graph, node, 1).dims;
  const Dims row = filtered(type.dims, [&](DimId one) { return one != dim && !has(ids, one); });
  type.dims = ids;
  type.dims.insert(type.dims.end(), row.begin(), row.end());
  return {type};
}

std::vector<ValueId> take_backward(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                   const std::vector<bool>& wanted) {
  const Node& node = build.graph.node(id);
  const ValueId table = node.inputs[0], ids = node.inputs[1];
  if (!wanted[0]) return {{}, {}};
  return {build.value(ScatterOp{std::get<TakeOp>(node.op).dim, build.graph.type(table).dims}, {ids, d[0]}), {}};
}

Types infer_scatter(const Graph& graph, const Node& node) {
  const ScatterOp& op = std::get<ScatterOp>(node.op);
  require_operands(graph, node, 2, 2);
  require(op.reduce == Reduce::sum || op.reduce == Reduce::max, graph, node, "rows are summed, or the largest taken");
  require(operand(graph, node, 0).element == Type::i32, graph, node, "indices are of type i32");
  require(has(op.table, op.dim), graph, node, "the table lacks the dim of the indices");
  require_dims(graph, node, 1, operand(graph, node, 0).dims);
  require_dims(graph, node, 1, without(op.table, {op.dim}));
  require(!has(operand(graph, node, 1).dims, op.dim), graph, node, "the rows have the dim that the indices count");
  ValueType type = operand(graph, node, 1);
  type.dims = op.table;
  return {type};
}

/// What the result's gradient is at the place of each row.
ValueId at_rows(GraphBuilder& build, const Node& node, ValueId d) {
  const ValueId read = build.value(TakeOp{std::get<ScatterOp>(node.op).dim}, {d, node.inputs[0]});
  return build.in_order(read, build.graph.type(node.inputs[1]).dims);
}

std::vector<ValueId> sum_backward(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                  const std::vector<bool>& wanted) {
  if (!wanted[1]) return {{}, {}};
  return {{}, at_rows(build, build.graph.node(id), d[0])};
}

/// The largest rows share it.
std::vector<ValueId> max_backward(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                  const std::vector<bool>& wanted) {
  if (!wanted[1]) return {{}, {}};
  const Node node = build.graph.node(id);
  const ValueId rows = node.inputs[1];
  const Type element = build.graph.type(rows).element;
  const ValueId is_largest =
      build.cast(build.map(MapFunction::equal, {rows, at_rows(build, node, node.results[0])}), element);
  ScatterOp sum = std::get<ScatterOp>(node.op);
  sum.reduce = Reduce::sum;
  const ValueId count = build.value(sum, {node.inputs[0], is_largest});
  const ValueId share = build.divide(d[0], build.map(MapFunction::maximum, {count, build.literal(1, element)}));
  return {{}, build.multiply(is_largest, at_rows(build, node, share))};
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
std::vector<Factor> scatter_factors(const Graph& graph, const Node& node) {
  const ScatterOp& op = std::get<ScatterOp>(node.op);
  std::vector<Factor> factors = with_rows(graph, node, op.dim);
  for (Factor& factor : factors) factor.reduce = op.reduce;
  return factors;
}

Reduction scatter_reduction(const Graph& graph, const Node& node) {
  const ScatterOp& op = std::get<ScatterOp>(node.op);
  return {op.reduce, without(operand(graph, node, 1).dims, op.table)};
}

double additions(const Graph& graph, const Node& node) {
  return static_cast<double>(graph.elements(operand(graph, node, 1)));
}

/// Dims that table and indices share first, then those of the indices, then those of a row.
Dims take_order(const MemoryOrders& orders, const Node& node, size_t) {
  const DimId dim = std::get<TakeOp>(node.op).dim;
  const Dims &table = orders.of(node.inputs[0]), &ids = orders.of(node.inputs[1]);
  Dims order = filtered(ids, [&](DimId one) { return has(table, one); });
  for (DimId one : without(ids, order)) order.push_back(one);
  for (DimId one : without(table, order))
    if (one != dim) order.push_back(one);
  return order;
}

/// The logical order, but a row is in one piece: dims that the indices share stand before those that they lack.
Dims scattered_order(const MemoryOrders& orders, const Node& node, size_t) {
  const ScatterOp& op = std::get<ScatterOp>(node.op);
  const Dims& ids = orders.graph.type(node.inputs[0]).dims;
  const auto row = std::ranges::find(op.table, op.dim);
  if (std::is_partitioned(row + 1, op.table.end(), [&](DimId one) { return has(ids, one); })) return op.table;
  Dims order = filtered(op.table, [&](DimId one) { return one == op.dim || has(ids, one); });
  for (DimId one : without(op.table, order)) order.push_back(one);
  return order;
}

/// Rows at positions that are known are a slice of the table.
Horizons take_horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  const DimId dim = std::get<TakeOp>(node.op).dim;
  const std::optional<PositionSum>& at = of[1].position;
  const Dims& table = operand(graph, node, 0).dims;
  const bool pairs = std::ranges::any_of(operand(graph, node, 1).dims, [&](DimId one) { return has(table, one); });
  if (!of[0].upto.contains(dim) || !at || at->times.size() > 1 || pairs)
    return horizon_along(graph, node, of, {dim}, "takes entries, at indices that are computed, of");
  const DimId to = at->times.empty() ? DimId{} : at->times.begin()->first;
  if (to && at->times.begin()->second != 1)
    return horizon_along(graph, node, of, {dim}, "goes otherwise than forwards through");
  Horizon horizon = shifted(of[0], dim, to, static_cast<int64_t>(at->plus));
  horizon.position.reset();
  return {horizon};
}
Horizons scatter_horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  const Dims& table = std::get<ScatterOp>(node.op).table;
  return {along(graph, of, without(operand(graph, node, 1).dims, table), "adds up, at indices that are computed,")};
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
      .narrow = Narrow::handed_on,
      .reads_elements = in_memory,
      .formula = no_formula,
      .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, take_order, nullptr},
  };
  return take;
}

namespace {

constexpr OpDefinition scattered(std::string_view name, PartialRule (*partial)(const Graph&, const Node&),
                                 std::vector<ValueId> (*gradient)(GraphBuilder&, NodeId, std::span<const ValueId>,
                                                                  const std::vector<bool>&)) {
  return {
      .name = name,
      .called = nullptr,
      .infer = infer_scatter,
      .factors = scatter_factors,
      .partial = partial,
      .gradient = gradient,
      .expand = nullptr,
      .reduction = scatter_reduction,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = false,
      .causality = scatter_horizon,
      .flops = additions,
      .effort = costs<Effort::lookup>,
      .narrow = Narrow::widened,
      .reads_elements = in_memory,
      .formula = no_formula,
      .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, scattered_order, nullptr},
  };
}

}  // namespace

const OpDefinition& definition_of(const ScatterOp& op) {
  static constexpr OpDefinition sum = scattered("scatter_add", linear_in_each, sum_backward),
                                largest = scattered("scatter_max", completes, max_backward);
  return op.reduce == Reduce::max ? largest : sum;
}

}  // namespace mesh::ops
