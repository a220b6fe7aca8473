// leaves.cpp: values that no other value gives: what is stored, numbers, positions, the step and its rate, random
// numbers.
#include "codegen/graph/ops/definitions.h"

namespace mesh::ops {
namespace {

Types infer_read(const Graph& graph, const Node& node) {
  return {graph.stored[std::get<ReadOp>(node.op).stored.index].type};
}
Types infer_f32(const Graph&, const Node&) { return {ValueType{Type::f32, {}, {}}}; }
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
/// Ten rounds of two products, and what makes a number of the bits.
double random_flops(const Graph& graph, const Node& node) {
  const bool normal = std::get<RandomOp>(node.op).distribution == Distribution::normal;
  return (normal ? 120.0 : 60.0) * static_cast<double>(graph.elements(graph.type(node.results[0])));
}

}  // namespace

const OpDefinition read{"read", infer_read, factors_by_name, completes, no_flops, nullptr};
const OpDefinition literal{"literal", infer_f32, factors_by_name,
                           completes, no_flops,  nullptr};  // the builder sets the type
const OpDefinition position{"position", infer_position, factors_by_name, completes, no_flops, nullptr};
const OpDefinition step{"step", infer_f64, factors_by_name, completes, no_flops, nullptr};
const OpDefinition rate{"rate", infer_f64, factors_by_name, completes, no_flops, nullptr};
const OpDefinition random{"random", infer_random, factors_by_name, completes, random_flops, nullptr};

}  // namespace mesh::ops
