// concat.cpp: operands one after the other along one dim. Where that is split each rank has of every operand what
// stands in its part; single elements, which have no dim of their own, stay whole, and the dim with them.
#include <algorithm>
#include <utility>

#include "codegen/graph/ops/definitions.h"

namespace mesh::ops {
namespace {

Types infer_concat(const Graph& graph, const Node& node) {
  const ConcatOp& op = std::get<ConcatOp>(node.op);
  require_operands(graph, node, op.parts.size(), op.parts.size());
  int64_t size = 0;
  for (size_t i = 0; i < op.parts.size(); ++i) {
    if (op.parts[i]) require_dims(graph, node, i, {op.parts[i]});
    require_same_element(graph, node, i);
    size += op.parts[i] ? graph.dim(op.parts[i]).size : 1;
  }
  require(size == graph.dim(op.to).size, graph, node, "the parts are not the whole");
  ValueType type = operand(graph, node, 0);
  if (op.parts[0]) std::replace(type.dims.begin(), type.dims.end(), op.parts[0], op.to);
  else type.dims.push_back(op.to);
  return {type};
}

std::vector<Factor> concat_factors(const Graph& graph, const Node& node) {
  const ConcatOp& op = std::get<ConcatOp>(node.op);
  std::vector<Factor> factors = factors_by_name(graph, node);
  const auto is_along = [&](const Factor& factor) {
    bool of_a_part = false;
    for (size_t i = 0; i < op.parts.size(); ++i)
      of_a_part = of_a_part || (factor.operands[i] && factor.operands[i] == op.parts[i]);
    return factor.results[0] == op.to || of_a_part;
  };
  if (std::ranges::count(op.parts, DimId{}) > 0) {
    for (Factor& factor : factors) factor.splittable = factor.splittable && !is_along(factor);
    return factors;
  }
  std::erase_if(factors, is_along);
  Factor along{.operands = op.parts, .results = {op.to}, .size = graph.dim(op.to).size, .results_at = {{}}};
  int64_t begin = 0;
  for (const DimId part : op.parts) {
    along.operands_at.push_back({begin});
    begin += graph.dim(part).size;
  }
  along.in_order = along.weigh = true;
  factors.push_back(std::move(along));
  return factors;
}

PartialRule concat_partial(const Graph&, const Node&) { return PartialRule::together; }

/// Each operand gets its stretch of d.
std::vector<ValueId> concat_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                     const std::vector<bool>& wanted) {
  const ConcatOp op = std::get<ConcatOp>(build.graph.node(id).op);
  std::vector<ValueId> result(op.parts.size());
  int64_t begin = 0;
  for (size_t i = 0; i < op.parts.size(); ++i) {
    if (wanted[i]) result[i] = build.value(SliceOp{op.to, op.parts[i], begin}, {d[0]});
    begin += op.parts[i] ? build.graph.dim(op.parts[i]).size : 1;
  }
  return result;
}

Dims concat_order(const MemoryOrders& orders, const Node& node, size_t) {
  const ConcatOp& op = std::get<ConcatOp>(node.op);
  if (const auto& wish = orders.wished[node.results[0].index]) return *wish;
  return op.parts[0] ? replaced(orders.of(node.inputs[0]), {op.parts[0]}, {op.to}) : orders.of(node.results[0]);
}

/// Each operand begins further along: a part's element i comes to stand behind the parts before it.
Horizons concat_causality(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  const ConcatOp& op = std::get<ConcatOp>(node.op);
  Horizons parts;
  int64_t begin = 0;
  for (size_t i = 0; i < of.size(); ++i) {
    const DimId from = op.parts[i];
    parts.push_back(from ? shifted(of[i], from, op.to, -begin) : of[i]);
    Horizon& part = parts.back();
    part.settled.clear();
    part.position.reset();
    if (!from && part.fixed) part.upto[op.to] = *std::exchange(part.fixed, std::nullopt) - begin;
    begin += from ? graph.dim(from).size : 1;
  }
  return {joined(parts)};
}

}  // namespace

const OpDefinition& definition_of(const ConcatOp&) {
  static constexpr OpDefinition concat{
      .name = "concat",
      .called = nullptr,
      .infer = infer_concat,
      .factors = concat_factors,
      .partial = concat_partial,
      .gradient = concat_gradient,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = concat_causality,
      .flops = no_flops,
      .effort = costs<Effort::dear>,
      .narrow = Narrow::handed_on,
      .reads_elements = in_nests,
      .formula = no_formula,
      .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, concat_order, nullptr},
  };
  return concat;
}

}  // namespace mesh::ops
