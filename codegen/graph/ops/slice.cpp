// slice.cpp: some elements of a dim, or one of them; and the reverse, elements among padding. Where a rank has most of
// what its part of the result is made of, as of a sequence that moves on by one, it is given the rest by its
// neighbours. Else, where the dim that is read is split, a rank gives the elements that it owns and zero for the
// others: a partial sum.
#include <optional>
#include <utility>

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

/// The longer dim in parts, and of the other one on each rank what stands there. Or each dim alone: gathering the one
/// that is read may be cheaper, or adding up what each rank owns of the result.
std::vector<Factor> weighed(std::vector<Factor> factors, Factor along, bool adds_up) {
  for (Factor& factor : factors) {
    factor.weigh = factor.operands[0] == along.operands[0] && !factor.results[0];
    factor.in_order = factor.weigh || (factor.results[0] == along.results[0] && !factor.operands[0]);
    if (factor.weigh) factor.splittable = adds_up;
  }
  if (!along.results[0]) return factors;
  along.in_order = along.weigh = along.other_way = true;
  factors.push_back(std::move(along));
  return factors;
}

/// Both dims in equal numbers of parts, if that asks little of neighbours: windows of one element move from one to the
/// other.
std::optional<std::vector<Factor>> moved(const std::vector<Factor>& factors, Factor along, const WindowReach& reach,
                                         int64_t size) {
  constexpr int64_t share = 8;  // of a dim that is cut in two, at most so much comes from the neighbour
  const Margin margin = reach.margin(2);
  if (!along.results[0] || (margin.before + margin.after) * share > size) return {};
  std::vector<Factor> all;
  for (const Factor& factor : factors)
    if (factor.operands[0] != along.operands[0] && factor.results[0] != along.results[0]) all.push_back(factor);
  along.in_order = true;
  along.window = reach;
  along.operands_at = along.results_at = {};
  all.push_back(std::move(along));
  return all;
}

std::vector<Factor> slice_factors(const Graph& graph, const Node& node) {
  const SliceOp& op = std::get<SliceOp>(node.op);
  const int64_t size = graph.dim(op.from).size, made = op.to ? graph.dim(op.to).size : 1;
  const WindowShape shape{size, made, 1, op.step, 1, -op.begin};
  const Factor along{.operands = {op.from},
                     .results = {op.to},
                     .size = size,
                     .operands_at = {{}},
                     .results_at = {{op.begin, op.step}}};
  const std::vector<Factor> factors = factors_by_name(graph, node);
  if (auto beside = moved(factors, along, {shape, true, {0}}, size)) return *beside;
  return weighed(factors, along, true);
}

std::vector<Factor> pad_factors(const Graph& graph, const Node& node) {
  const PadOp& op = std::get<PadOp>(node.op);
  const int64_t size = graph.dim(op.from).size, made = graph.dim(op.to).size;
  const WindowShape shape{made, size, 1, op.every, 1, -op.before};
  const Factor along{.operands = {op.from},
                     .results = {op.to},
                     .size = made,
                     .operands_at = {{op.before, op.every}},
                     .results_at = {{}}};
  const std::vector<Factor> factors = factors_by_name(graph, node);
  const bool zeros = op.value == 0;
  if (zeros)
    if (auto beside = moved(factors, along, {shape, false, {0}, true}, size)) return *beside;
  return weighed(factors, along, zeros);
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
      .narrow = Narrow::handed_on,
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
      .narrow = Narrow::filled,
      .reads_elements = in_memory,
      .formula = always_formula,
      .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, padded_order, nullptr},
  };
  return pad;
}

}  // namespace mesh::ops
