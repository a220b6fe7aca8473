// dot.cpp: the product of two tensors, contracted over named dims; dims that both have and that are not contracted pair
// up.
#include "codegen/graph/ops/definitions.h"

namespace mesh::ops {
namespace {

/// The left operand's remaining dims, then the right one's new ones.
Types infer(const Graph& graph, const Node& node) {
  const std::vector<DimId>& contracted = std::get<DotOp>(node.op).dims;
  require_operands(graph, node, 2, 2);
  require_dims(graph, node, 0, contracted);
  require_dims(graph, node, 1, contracted);
  require_same_element(graph, node, 1);
  ValueType type = operand(graph, node, 0);
  type.dims = without(type.dims, contracted);
  for (DimId dim : operand(graph, node, 1).dims)
    if (!has(contracted, dim) && !has(type.dims, dim)) type.dims.push_back(dim);
  return {type};
}

double flops(const Graph& graph, const Node& node) {
  double n = 2;
  for (const Factor& factor : factors_by_name(graph, node)) n *= static_cast<double>(factor.size);
  return n;
}

/// d_a = d · b over what a lacks, d_b = a · d over what b lacks.
std::vector<ValueId> gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                              const std::vector<bool>& wanted) {
  const Graph& graph = build.graph;
  const ValueId a = graph.node(id).inputs[0], b = graph.node(id).inputs[1];
  const auto over = [&](ValueId other, ValueId of) {  // the dims of d and `other` that `of` lacks
    std::vector<DimId> dims = without(graph.type(d[0]).dims, graph.type(of).dims);
    for (DimId dim : without(graph.type(other).dims, graph.type(of).dims))
      if (!has(dims, dim)) dims.push_back(dim);
    return dims;
  };
  // Summing over a dim of one factor alone is a sum, not a product: it is taken out first.
  const auto product = [&](ValueId left, ValueId right, const std::vector<DimId>& dims, ValueId of) {
    std::vector<DimId> both;
    for (DimId dim : dims)
      if (has(graph.type(left).dims, dim) && has(graph.type(right).dims, dim)) both.push_back(dim);
    const auto alone = [&](ValueId of) {
      std::vector<DimId> own;
      for (DimId dim : dims)
        if (!has(both, dim) && has(graph.type(of).dims, dim)) own.push_back(dim);
      return build.reduce(Reduce::sum, of, own);
    };
    const ValueId l = alone(left), r = alone(right);
    const auto dims_of_product = [&](ValueId first, ValueId second) {
      std::vector<DimId> all = without(graph.type(first).dims, both);
      for (DimId dim : without(graph.type(second).dims, both))
        if (!has(all, dim)) all.push_back(dim);
      return all;
    };
    // The gradient lists its dims as the operand does, where one of the two orders gives that.
    const bool swap = dims_of_product(l, r) != graph.type(of).dims && dims_of_product(r, l) == graph.type(of).dims;
    return swap ? build.dot(r, l, both) : build.dot(l, r, both);
  };
  std::vector<ValueId> result(2);
  if (wanted[0]) result[0] = product(d[0], b, over(b, a), a);
  if (wanted[1]) result[1] = product(a, d[0], over(a, b), b);
  return result;
}

}  // namespace

const OpDefinition dot{"dot", infer, factors_by_name, linear_in_each, flops, gradient};

}  // namespace mesh::ops
