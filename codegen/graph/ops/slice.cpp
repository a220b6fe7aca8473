// slice.cpp: some elements of a dim, or one of them; and the reverse, elements among padding. Where a rank has most of
// what its part of the result is made of, as of a sequence that moves on by one, it is given the rest by its
// neighbours. Else, where the dim that is read is split, a rank gives the elements that it owns and zero for the
// others: a partial sum.
#include "codegen/graph/ops/definitions.h"

namespace mesh::ops {
namespace {

Types infer_slice(const Graph& graph, const Node& node) {
  const SliceOp& op = std::get<SliceOp>(node.op);
  require_operands(graph, node, 1, 1);
  require_dims(graph, node, 0, {op.from});
  const int64_t last = op.begin + (op.to ? graph.dim(op.to).size - 1 : 0) * op.step;
  require(op.begin >= 0 && op.step > 0 && last < graph.dim(op.from).size, graph, node, "beyond the end");
  return {with_dim(operand(graph, node, 0), op.from, op.to)};
}

Types infer_pad(const Graph& graph, const Node& node) {
  const PadOp& op = std::get<PadOp>(node.op);
  require_operands(graph, node, 1, 1);
  require_dims(graph, node, 0, {op.from});
  const int64_t last = op.before + (graph.dim(op.from).size - 1) * op.every;
  require(op.before >= 0 && op.every > 0 && last < graph.dim(op.to).size, graph, node, "beyond the end");
  return {with_dim(operand(graph, node, 0), op.from, op.to)};
}

/// Gathering the dim may be cheaper than adding up what each rank owns of the result.
std::vector<Factor> weighed(std::vector<Factor> factors, DimId from, DimId to) {
  for (Factor& factor : factors) {
    factor.weigh = factor.operands[0] == from && !factor.results[0];
    factor.in_order = factor.weigh || (factor.results[0] == to && !factor.operands[0]);
  }
  return factors;
}

/// Both dims in equal numbers of parts, if that asks little of neighbours: windows of one element move from one to the
/// other. Else each dim alone.
std::vector<Factor> moved(const Graph& graph, const Node& node, DimId from, DimId to, const WindowReach& reach) {
  constexpr int64_t share = 8;  // of a dim that is cut in two, at most so much comes from the neighbour
  const std::vector<Factor> factors = factors_by_name(graph, node);
  const int64_t size = graph.dim(from).size;
  const Margin margin = reach.margin(2);
  if (!to || (margin.before + margin.after) * share > size) return weighed(factors, from, to);
  std::vector<Factor> all;
  for (const Factor& factor : factors)
    if (factor.operands[0] != from && factor.results[0] != to) all.push_back(factor);
  Factor along{{from}, {to}, std::max(size, graph.dim(to).size)};
  along.in_order = true;
  along.window = reach;
  all.push_back(std::move(along));
  return all;
}

std::vector<Factor> slice_factors(const Graph& graph, const Node& node) {
  const SliceOp& op = std::get<SliceOp>(node.op);
  const int64_t made = op.to ? graph.dim(op.to).size : 1;
  const WindowShape shape{graph.dim(op.from).size, made, 1, op.step, 1, -op.begin};
  return moved(graph, node, op.from, op.to, {shape, true, {0}});
}

std::vector<Factor> pad_factors(const Graph& graph, const Node& node) {
  const PadOp& op = std::get<PadOp>(node.op);
  const WindowShape shape{graph.dim(op.to).size, graph.dim(op.from).size, 1, op.every, 1, -op.before};
  if (op.value == 0) return moved(graph, node, op.from, op.to, {shape, false, {0}, true});
  std::vector<Factor> factors = weighed(factors_by_name(graph, node), op.from, op.to);
  for (Factor& factor : factors)
    if (factor.weigh) factor.splittable = false;
  return factors;
}

PartialRule pad_partial(const Graph&, const Node& node) {
  return std::get<PadOp>(node.op).value == 0 ? PartialRule::first : PartialRule::completes;
}

/// The elements that were left out have no gradient.
std::vector<ValueId> slice_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                    const std::vector<bool>&) {
  const SliceOp op = std::get<SliceOp>(build.graph.node(id).op);
  if (op.to) return {build.value(PadOp{op.to, op.from, op.begin, op.step, 0}, {d[0]})};
  const Type element = build.graph.type(d[0]).element;
  const ValueId here =
      build.map(MapFunction::equal, {build.position(op.from), build.literal(static_cast<double>(op.begin), Type::i32)});
  const DimId dims[] = {op.from};
  return {build.map(MapFunction::where, {here, build.broadcast(d[0], dims), build.literal(0, element)})};
}

std::vector<ValueId> pad_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                  const std::vector<bool>&) {
  const PadOp op = std::get<PadOp>(build.graph.node(id).op);
  return {build.value(SliceOp{op.to, op.from, op.before, op.every}, {d[0]})};
}

/// A slice of a slice is one slice; but of one that neighbours take part in each rank has its own part.
bool is_of_a_slice(const Graph& graph, const Node& node) {
  const Node& producer = graph.node(graph.value(node.inputs[0]).producer);
  if (!std::holds_alternative<SliceOp>(producer.op)) return false;
  return std::ranges::none_of(slice_factors(graph, producer), [](const Factor& one) { return one.window.has_value(); });
}

Dims sliced_order(const MemoryOrders& orders, const Node& node, size_t) {
  const SliceOp& op = std::get<SliceOp>(node.op);
  return replaced(orders.of(node.inputs[0]), {op.from}, op.to ? Dims{op.to} : Dims{});
}

Dims padded_order(const MemoryOrders& orders, const Node& node, size_t) {
  const PadOp& op = std::get<PadOp>(node.op);
  return replaced(orders.of(node.inputs[0]), {op.from}, {op.to});
}

Horizons slice_horizon(const Graph&, const Node& node, std::span<const Horizon> of) {
  const SliceOp& op = std::get<SliceOp>(node.op);
  return {shifted(of[0], op.from, op.to, op.begin, op.step)};
}

/// Element i comes to stand at `before` + `every` * i, which is no earlier than `before` + i.
Horizons pad_horizon(const Graph&, const Node& node, std::span<const Horizon> of) {
  const PadOp& op = std::get<PadOp>(node.op);
  Horizon horizon = shifted(of[0], op.from, op.to, -op.before);
  horizon.settled.clear();
  horizon.position.reset();
  return {horizon};
}

}  // namespace

const OpDefinition& definition_of(const SliceOp&) {
  static constexpr OpDefinition slice{
      .name = "slice",
      .called = nullptr,
      .infer = infer_slice,
      .factors = slice_factors,
      .partial = linear_in_first,
      .gradient = slice_gradient,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = slice_horizon,
      .flops = no_flops,
      .effort = costs<Effort::dear>,
      .multiplies_bf16 = false,
      .reads_elements = is_of_a_slice,
      .formula = always_formula,
      .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, sliced_order, nullptr},
  };
  return slice;
}

const OpDefinition& definition_of(const PadOp&) {
  static constexpr OpDefinition pad{
      .name = "pad",
      .called = nullptr,
      .infer = infer_pad,
      .factors = pad_factors,
      .partial = pad_partial,
      .gradient = pad_gradient,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = pad_horizon,
      .flops = no_flops,
      .effort = costs<Effort::dear>,
      .multiplies_bf16 = false,
      .reads_elements = in_memory,
      .formula = always_formula,
      .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, padded_order, nullptr},
  };
  return pad;
}

}  // namespace mesh::ops
