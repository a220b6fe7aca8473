// leaves.cpp: values that no other value gives: what is stored, numbers, positions, the step and its rate.
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

}  // namespace

const OpDefinition read{"read", infer_read, factors_by_name, completes, no_flops, nullptr};
const OpDefinition literal{"literal", infer_f32, factors_by_name,
                           completes, no_flops,  nullptr};  // the builder sets the type
const OpDefinition position{"position", infer_position, factors_by_name, completes, no_flops, nullptr};
const OpDefinition step{"step", infer_f64, factors_by_name, completes, no_flops, nullptr};
const OpDefinition rate{"rate", infer_f64, factors_by_name, completes, no_flops, nullptr};

}  // namespace mesh::ops
