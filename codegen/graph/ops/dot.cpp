// dot.cpp: the product of two tensors, contracted over named dims; dims that both have and that are not contracted pair
// up. Products of bf16 or f16 are f32, in which they are added up; one operand may be so beside another of f32.
#include "codegen/graph/ops/definitions.h"

namespace mesh {

std::optional<Op> multiplied_over(const Op& op, DimId also) {
  const auto* dot = std::get_if<DotOp>(&op);
  if (!dot) return std::nullopt;
  DotOp over{{also}};
  over.dims.insert(over.dims.end(), dot->dims.begin(), dot->dims.end());
  return over;
}

}  // namespace mesh

namespace mesh::ops {
namespace {

/// The left operand's remaining dims, then the right one's new ones.
Types infer_dot(const Graph& graph, const Node& node) {
  const std::vector<DimId>& contracted = std::get<DotOp>(node.op).dims;
  require_operands(graph, node, 2, 2);
  require_dims(graph, node, 0, contracted);
  require_dims(graph, node, 1, contracted);
  ValueType type = operand(graph, node, 0);
  type.element = computed_in(type.element);
  require(computed_in(operand(graph, node, 1).element) == type.element, graph, node,
          "operands of unlike element types");
  type.dims = without(type.dims, contracted);
  for (DimId dim : operand(graph, node, 1).dims)
    if (!has(contracted, dim) && !has(type.dims, dim)) type.dims.push_back(dim);
  return {type};
}

double dot_flops(const Graph& graph, const Node& node) {
  double n = 2;
  for (const Factor& factor : factors_by_name(graph, node)) n *= static_cast<double>(factor.size);
  return n;
}

/// d_a = d · b over what a lacks, d_b = a · d over what b lacks. Where a and b are bf16 or f16, d becomes that too.
std::vector<ValueId> dot_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                  const std::vector<bool>& wanted) {
  const Graph& graph = build.graph;
  const ValueId a = graph.node(id).inputs[0], b = graph.node(id).inputs[1];
  const Type element = graph.type(a).element;
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
    const auto summed = [&](ValueId side) {
      std::vector<DimId> own;
      for (DimId dim : dims)
        if (!has(both, dim) && has(graph.type(side).dims, dim)) own.push_back(dim);
      if (!own.empty()) side = build.reduce(Reduce::sum, build.cast(side, computed_in(graph.type(side).element)), own);
      return build.narrow(side, element);
    };
    const ValueId l = summed(left), r = summed(right);
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

std::string product_name(const Op&, size_t) { return "product"; }

Reduction dot_reduction(const Graph&, const Node& node) { return {Reduce::sum, std::get<DotOp>(node.op).dims}; }

/// An order is plain where the kernel writes it as one matrix or as a loop over matrices: the left operand's own dims
/// (rows) side by side as they lie there, the right one's (columns) alike, and what both have not innermost. The wish
/// is taken, else the logical order, where that is plain; else what both have (loops over products), rows, columns.
Dims dot_order(const MemoryOrders& orders, const Node& node, size_t) {
  const Dims& contracted = std::get<DotOp>(node.op).dims;
  const Dims &a = orders.of(node.inputs[0]), &b = orders.of(node.inputs[1]);
  const auto plain = [&](const Dims& c) {
    const auto is_batch = [&](DimId dim) { return has(a, dim) && has(b, dim); };
    const Dims rows = filtered(c, [&](DimId dim) { return !has(b, dim); });
    const Dims cols = filtered(c, [&](DimId dim) { return !has(a, dim); });
    return (c.empty() || !is_batch(c.back())) && is_stretch(c, rows) && is_stretch(c, cols) && is_stretch(a, rows) &&
           is_stretch(b, cols);
  };
  const auto& wish = orders.wished[node.results[0].index];
  if (wish && plain(*wish)) return *wish;
  const Dims& logical = orders.graph.type(node.results[0]).dims;
  if (plain(logical)) return logical;
  Dims order = filtered(a, [&](DimId dim) { return has(b, dim) && !has(contracted, dim); });
  for (DimId dim : a)
    if (!has(b, dim)) order.push_back(dim);
  for (DimId dim : b)
    if (!has(a, dim)) order.push_back(dim);
  return order;
}

/// Contracted dims side by side, as they lie in the other operand, where they do not do so by themselves.
void dot_wish(const Graph& graph, const Node& node, const std::function<void(ValueId, Dims)>& wish_for) {
  const Dims& contracted = std::get<DotOp>(node.op).dims;
  for (size_t side = 0; side < 2; ++side) {
    const Dims &own = graph.type(node.inputs[side]).dims, &other = graph.type(node.inputs[1 - side]).dims;
    const auto is_inner = [&](DimId dim) { return has(contracted, dim); };
    const Dims inner = filtered(other, is_inner);
    if (is_stretch(own, inner) || !is_stretch(other, inner)) continue;
    Dims order = filtered(own, [&](DimId dim) { return !is_inner(dim); });
    order.insert(order.end(), inner.begin(), inner.end());
    wish_for(node.inputs[side], order);
  }
}

Horizons dot_causality(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  Horizon horizon = multiplied(of[0], of[1]);
  for (const DimId dim : std::get<DotOp>(node.op).dims) horizon = without_dim(horizon, dim, adds_up(graph, dim));
  return {horizon};
}

}  // namespace

const OpDefinition& definition_of(const DotOp&) {
  static constexpr OpDefinition dot{
      .name = "dot",
      .called = product_name,
      .infer = infer_dot,
      .factors = factors_by_name,
      .partial = linear_in_each,
      .gradient = dot_gradient,
      .expand = nullptr,
      .reduction = dot_reduction,
      .number = nullptr,
      .names_dims_alike = true,
      .works_along_dims = false,
      .causality = dot_causality,
      .flops = dot_flops,
      .effort = costs<Effort::product>,
      .narrow = Narrow::multiplied,
      .reads_elements = in_memory,
      .formula = no_formula,
      .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, dot_order, dot_wish},
  };
  return dot;
}

}  // namespace mesh::ops
