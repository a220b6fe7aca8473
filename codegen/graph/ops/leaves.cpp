// leaves.cpp: values that no other value gives: what is stored, numbers, positions, the step and its rate, random
// numbers.
#include "codegen/graph/ops/definitions.h"

namespace mesh {

namespace {

const LiteralOp* literal_of(const Graph& graph, ValueId value) {
  const Node* at = &graph.node(graph.value(value).producer);
  while (std::holds_alternative<BroadcastOp>(at->op)) at = &graph.node(graph.value(at->inputs[0]).producer);
  return std::get_if<LiteralOp>(&at->op);
}

}  // namespace

std::optional<double> literal_number(const Graph& graph, ValueId value) {
  const LiteralOp* literal = literal_of(graph, value);
  return literal ? std::optional<double>(literal->value) : std::nullopt;
}

std::vector<DimId> counted_dims(const Graph& graph, ValueId value) {
  const LiteralOp* literal = literal_of(graph, value);
  return literal ? literal->counts : std::vector<DimId>();
}

}  // namespace mesh

namespace mesh::ops {
namespace {

Types infer_read(const Graph& graph, const Node& node) {
  return {graph.stored[std::get<ReadOp>(node.op).stored.index].type};
}
/// Who builds it says of which type.
Types infer_literal(const Graph& graph, const Node& node) {
  if (node.results.empty()) return {ValueType{Type::f32, {}, {}}};
  const ValueType& type = graph.type(node.results[0]);
  return {ValueType{type.element, type.index_of, {}}};
}
std::optional<double> literal_value(const Graph&, const Node& node, const NumberOf&) {
  return std::get<LiteralOp>(node.op).value;
}
Types infer_f64(const Graph&, const Node&) { return {ValueType{Type::f64, {}, {}}}; }
Types infer_position(const Graph&, const Node& node) {
  return {ValueType{Type::i32, {}, {std::get<PositionOp>(node.op).dim}}};
}

Types infer_random(const Graph& graph, const Node& node) {
  const RandomOp& op = std::get<RandomOp>(node.op);
  for (ValueId turn : node.inputs)
    require(graph.type(turn).element == Type::i32 && graph.type(turn).dims.empty(), graph, node, "a turn is a number");
  return {ValueType{op.element, {}, op.dims}};
}
Horizons literal_horizon(const Graph&, const Node& node, std::span<const Horizon>) {
  return {{.position = PositionSum{{}, std::get<LiteralOp>(node.op).value}}};
}
Horizons position_horizon(const Graph&, const Node& node, std::span<const Horizon>) {
  return {{.position = PositionSum{{{std::get<PositionOp>(node.op).dim, 1}}, 0}}};
}
double random_flops(const Graph& graph, const Node& node) {
  const bool normal = std::get<RandomOp>(node.op).distribution == Distribution::normal;
  return (normal ? flops_of_normal : flops_of_uniform) *
         static_cast<double>(graph.elements(graph.type(node.results[0])));
}

/// Uniform numbers cost less than a turn of reading and writing them.
Effort random_effort(const Op& op) {
  return std::get<RandomOp>(op).distribution == Distribution::uniform ? Effort::cheap : Effort::dear;
}
/// What is dear is made once.
Formula random_formula(const Op& op) {
  const bool cheap = random_effort(op) == Effort::cheap;
  return {.always = cheap, .alone = !cheap};
}

}  // namespace

const OpDefinition& definition_of(const ReadOp&) {
  static constexpr OpDefinition read{
      .name = "read",
      .called = nullptr,
      .infer = infer_read,
      .factors = factors_by_name,
      .partial = completes,
      .gradient = nullptr,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = horizon_of_operands,
      .flops = no_flops,
      .effort = costs<Effort::dear>,
      .narrow = Narrow::handed_on,
      .reads_elements = in_memory,
      .formula = no_formula,
      .memory_order = logical_order,
  };
  return read;
}

const OpDefinition& definition_of(const LiteralOp&) {
  static constexpr OpDefinition literal{
      .name = "literal",
      .called = nullptr,
      .infer = infer_literal,
      .factors = factors_by_name,
      .partial = completes,
      .gradient = nullptr,
      .expand = nullptr,
      .reduction = nullptr,
      .number = literal_value,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = literal_horizon,
      .flops = no_flops,
      .effort = costs<Effort::cheap>,
      .narrow = Narrow::handed_on,
      .reads_elements = in_memory,
      .formula = always_formula,
      .memory_order = MemoryOrder{MemoryOrder::Kind::spread, nullptr, nullptr},
  };
  return literal;
}

const OpDefinition& definition_of(const PositionOp&) {
  static constexpr OpDefinition position{
      .name = "position",
      .called = nullptr,
      .infer = infer_position,
      .factors = factors_by_name,
      .partial = completes,
      .gradient = nullptr,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = false,
      .causality = position_horizon,
      .flops = no_flops,
      .effort = costs<Effort::cheap>,
      .narrow = Narrow::handed_on,
      .reads_elements = in_memory,
      .formula = always_formula,
      .memory_order = logical_order,
  };
  return position;
}

const OpDefinition& definition_of(const StepOp&) {
  static constexpr OpDefinition step{
      .name = "step",
      .called = nullptr,
      .infer = infer_f64,
      .factors = factors_by_name,
      .partial = completes,
      .gradient = nullptr,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = horizon_of_operands,
      .flops = no_flops,
      .effort = costs<Effort::cheap>,
      .narrow = Narrow::handed_on,
      .reads_elements = in_memory,
      .formula = always_formula,
      .memory_order = logical_order,
  };
  return step;
}

const OpDefinition& definition_of(const RateOp&) {
  static constexpr OpDefinition rate{
      .name = "rate",
      .called = nullptr,
      .infer = infer_f64,
      .factors = factors_by_name,
      .partial = completes,
      .gradient = nullptr,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = horizon_of_operands,
      .flops = no_flops,
      .effort = costs<Effort::dear>,
      .narrow = Narrow::handed_on,
      .reads_elements = in_memory,
      .formula = always_formula,
      .memory_order = logical_order,
  };
  return rate;
}

const OpDefinition& definition_of(const RandomOp&) {
  static constexpr OpDefinition random{
      .name = "random",
      .called = nullptr,
      .infer = infer_random,
      .factors = factors_by_name,
      .partial = completes,
      .gradient = nullptr,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = false,
      .causality = horizon_of_operands,
      .flops = random_flops,
      .effort = random_effort,
      .narrow = Narrow::handed_on,
      .reads_elements = in_nests,
      .formula = random_formula,
      .memory_order = logical_order,
  };
  return random;
}

}  // namespace mesh::ops
