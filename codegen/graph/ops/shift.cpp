// shift.cpp: the neighbour at a distance along a dim, beyond the ends what the edge says. To give its part a rank needs
// a margin beside the operand's.
#include <cstdlib>

#include "codegen/graph/ops/definitions.h"

namespace mesh::ops {
namespace {

const ShiftOp& op_of(const Node& node) { return std::get<ShiftOp>(node.op); }

Types infer_shift(const Graph& graph, const Node& node) {
  const ShiftOp& op = op_of(node);
  require_operands(graph, node, 1, 1);
  require_dims(graph, node, 0, {op.dim});
  require(std::abs(op.distance) < graph.dim(op.dim).size, graph, node, "further than the dim is long");
  return {operand(graph, node, 0)};
}

std::vector<Factor> shift_factors(const Graph& graph, const Node& node) {
  const ShiftOp& op = op_of(node);
  std::vector<Factor> factors = factors_by_name(graph, node);
  for (Factor& factor : factors)
    if (factor.operands[0] == op.dim)
      factor.margin = {std::max<int64_t>(0, -op.distance), std::max<int64_t>(0, op.distance), op.edge};
  return factors;
}

PartialRule shift_partial(const Graph&, const Node& node) {
  const Edge& edge = op_of(node).edge;
  return edge.kind == Edge::Kind::value && edge.value != 0 ? PartialRule::completes : PartialRule::first;
}

constexpr int64_t few = 3;

/// What the element at the end of the dim gives to those that look beyond it.
ValueId beyond(GraphBuilder& build, const ShiftOp& op, ValueId d) {
  const int64_t count = std::abs(op.distance), size = build.graph.dim(op.dim).size;
  const bool last = op.distance > 0;
  const Type element = build.graph.type(d).element;
  if (count <= few) {  // each of them, shifted to the end
    ValueId sum = d;
    for (int64_t i = 1; i < count; ++i) sum = build.add(sum, build.value(ShiftOp{op.dim, last ? -i : i, {}}, {d}));
    return sum;
  }
  const DimId dims[] = {op.dim};
  const ValueId limit = build.literal(static_cast<double>(last ? size - count : count - 1), Type::i32);
  const MapFunction lies = last ? MapFunction::greater_equal : MapFunction::less_equal;
  const ValueId looks = build.map(lies, {build.position(op.dim), limit});
  return build.reduce(Reduce::sum, build.map(MapFunction::where, {looks, d, build.literal(0, element)}), dims);
}

/// Shifted back; under "clamp" the element at the end also gets what lies beyond.
std::vector<ValueId> shift_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                    const std::vector<bool>&) {
  const ShiftOp op = op_of(build.graph.node(id));
  const Edge edge = op.edge.kind == Edge::Kind::wrap ? op.edge : Edge{};
  const ValueId back = build.value(ShiftOp{op.dim, -op.distance, edge}, {d[0]});
  if (op.edge.kind != Edge::Kind::clamp) return {back};
  const double end = op.distance > 0 ? static_cast<double>(build.graph.dim(op.dim).size - 1) : 0;
  const ValueId at_end = build.map(MapFunction::equal, {build.position(op.dim), build.literal(end, Type::i32)});
  const ValueId none = build.literal(0, build.graph.type(d[0]).element);
  return {build.add(back, build.map(MapFunction::where, {at_end, beyond(build, op, d[0]), none}))};
}

/// Beyond the ends stand numbers, or the element at the end: at the beginning that is an earlier one still.
Horizons shift_causality(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  const ShiftOp& op = op_of(node);
  if (op.edge.kind == Edge::Kind::wrap) return horizon_along(graph, node, of, {op.dim}, "goes round the ends of");
  Horizon horizon = shifted(of[0], op.dim, op.dim, op.distance);
  horizon.position.reset();
  const auto bound = of[0].upto.find(op.dim);
  if (bound != of[0].upto.end() && op.edge.kind == Edge::Kind::clamp)
    horizon.upto[op.dim] = std::max(horizon.upto[op.dim], bound->second);
  return {horizon};
}

}  // namespace

const OpDefinition& definition_of(const ShiftOp&) {
  static constexpr OpDefinition shift{
      .name = "shift",
      .called = nullptr,
      .infer = infer_shift,
      .factors = shift_factors,
      .partial = shift_partial,
      .gradient = shift_gradient,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = shift_causality,
      .flops = no_flops,
      .effort = costs<Effort::dear>,
      .narrow = Narrow::filled,
      .reads_elements = in_memory,
      .formula = always_formula,
      .memory_order = order_of_operand,
  };
  return shift;
}

}  // namespace mesh::ops
