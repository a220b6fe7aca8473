// along.cpp: what runs along one dim from end to end: running sums, sorting, and the gradient of sorting. That dim
// stays whole; all others may be split.
#include <cmath>

#include "codegen/graph/ops/definitions.h"

namespace mesh::ops {
namespace {

std::vector<Factor> whole(const Graph& graph, const Node& node, std::initializer_list<DimId> dims) {
  std::vector<Factor> factors = factors_by_name(graph, node);
  for (Factor& factor : factors)
    for (const std::vector<DimId>* side : {&factor.operands, &factor.results})
      for (DimId dim : *side)
        if (dim && std::find(dims.begin(), dims.end(), dim) != dims.end()) factor.splittable = false;
  return factors;
}

double elements(const Graph& graph, const Node& node) {
  return static_cast<double>(graph.elements(operand(graph, node, 0)));
}

// ---- running sums

Types infer_cumulative(const Graph& graph, const Node& node) {
  require_operands(graph, node, 1, 1);
  require_dims(graph, node, 0, {std::get<CumulativeOp>(node.op).dim});
  return {operand(graph, node, 0)};
}

std::vector<Factor> cumulative_factors(const Graph& graph, const Node& node) {
  return whole(graph, node, {std::get<CumulativeOp>(node.op).dim});
}

/// An element counts in every sum from it on: their gradients summed from the other end.
std::vector<ValueId> cumulative_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                         const std::vector<bool>&) {
  const CumulativeOp op = std::get<CumulativeOp>(build.graph.node(id).op);
  return {build.value(CumulativeOp{op.dim, !op.reverse}, {d[0]})};
}

// ---- sorting

Types infer_sort(const Graph& graph, const Node& node) {
  const SortOp& op = std::get<SortOp>(node.op);
  require_operands(graph, node, 1, 1);
  require_dims(graph, node, 0, {op.dim});
  require(graph.dim(op.to).size <= graph.dim(op.dim).size, graph, node, "more elements than there are");
  const ValueType values = with_dim(operand(graph, node, 0), op.dim, op.to);
  return {values, {Type::i32, op.dim, values.dims}};
}

std::vector<Factor> sort_factors(const Graph& graph, const Node& node) {
  const SortOp& op = std::get<SortOp>(node.op);
  return whole(graph, node, {op.dim, op.to});
}

/// A comparison for each halving of the dim.
double comparisons(const Graph& graph, const Node& node) {
  return elements(graph, node) * std::log2(1 + static_cast<double>(graph.dim(std::get<SortOp>(node.op).dim).size));
}

std::vector<ValueId> sort_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                   const std::vector<bool>&) {
  const Node node = build.graph.node(id);
  const SortOp op = std::get<SortOp>(node.op);
  return {build.value(PlaceOp{op.to, op.dim}, {node.results[1], d[0]})};
}

Types infer_place(const Graph& graph, const Node& node) {
  const PlaceOp& op = std::get<PlaceOp>(node.op);
  require_operands(graph, node, 2, 2);
  require_dims(graph, node, 0, {op.from});
  require_dims(graph, node, 1, {op.from});
  return {with_dim(operand(graph, node, 1), op.from, op.to)};
}

std::vector<Factor> place_factors(const Graph& graph, const Node& node) {
  const PlaceOp& op = std::get<PlaceOp>(node.op);
  return whole(graph, node, {op.from, op.to});
}

}  // namespace

const OpDefinition cumulative{"cumsum",        infer_cumulative, cumulative_factors,
                              linear_in_first, elements,         cumulative_gradient};
const OpDefinition sort{"sort", infer_sort, sort_factors, completes, comparisons, sort_gradient};
const OpDefinition place{"place", infer_place, place_factors, linear_in_each, no_flops, nullptr};

}  // namespace mesh::ops
