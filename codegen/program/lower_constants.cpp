// lower_constants.cpp: numbers that are known before the program runs.
#include "codegen/graph/op.h"
#include "codegen/program/lowering.h"

namespace mesh {

std::optional<double> Lowering::constant(ValueId value) const {
  if (memory_[value.index]) return {};
  const Node& node = graph_.node(graph_.value(value).producer);
  const Placement& placement = sharded_.placement(value);
  if (placement.has_margins()) return {};  // beyond the ends there may be another number
  if (placement.circulates()) return {};   // what goes round lies in memory
  if (const auto* reshard = std::get_if<ReshardOp>(&node.op)) {
    if (sharded_.steps[reshard->step].kind == CollectiveKind::term) return {};  // elsewhere it is zero
    const Node& before = graph_.node(graph_.value(node.inputs[0]).producer);
    if (definition(before.op).reduction)  // the whole, of which each rank has a part
      if (const auto whole = number(before)) return whole;
    return constant(node.inputs[0]);
  }
  if (placement.is_partial() && definition(node.op).reduction) return {};  // a part of it
  return number(node);
}

std::optional<double> Lowering::number(const Node& node) const {
  const auto number = definition(node.op).number;
  return number ? number(graph_, node, [this](ValueId value) { return constant(value); }) : std::nullopt;
}

std::vector<DimId> Lowering::counts(ValueId value, double number) const {
  const Node* node = &graph_.node(graph_.value(value).producer);
  while (std::holds_alternative<ReshardOp>(node->op)) {
    value = node->inputs[0];
    node = &graph_.node(graph_.value(value).producer);
  }
  const auto reduction = definition(node->op).reduction;
  const std::vector<DimId> dims = reduction ? reduction(graph_, *node).dims : counted_dims(graph_, value);
  double product = 1;
  for (const DimId dim : dims) product *= static_cast<double>(graph_.dim(dim).size);
  return product == number ? dims : std::vector<DimId>();
}

}  // namespace mesh
