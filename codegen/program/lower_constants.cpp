// lower_constants.cpp: numbers that are known before the program runs.
#include "codegen/program/lowering.h"

namespace mesh {

std::optional<double> Lowering::constant(ValueId value) const {
  if (memory_[value.index]) return {};
  const Node& node = graph_.node(graph_.value(value).producer);
  if (const auto* literal = std::get_if<LiteralOp>(&node.op)) return literal->value;
  if (std::holds_alternative<BroadcastOp>(node.op) || std::holds_alternative<RenameOp>(node.op))
    return constant(node.inputs[0]);
  if (sharded_.placement(value).has_margins()) return {};  // beyond the ends there may be another number
  if (std::holds_alternative<ReshardOp>(node.op)) {
    if (const auto whole = count(graph_.node(graph_.value(node.inputs[0]).producer))) return whole;
    return constant(node.inputs[0]);
  }
  if (const auto* map = std::get_if<MapOp>(&node.op); map && map->function == MapFunction::cast) {
    const std::optional<double> of = constant(node.inputs[0]);
    const Type to = graph_.type(value).element;
    // Only where the number survives: a cast to a narrower type is left to run time.
    return of && (to == Type::f64 || (to == Type::f32 && static_cast<double>(static_cast<float>(*of)) == *of))
               ? of
               : std::nullopt;
  }
  if (const auto* map = std::get_if<MapOp>(&node.op)) return folded(*map, node);
  if (sharded_.placement(value).is_partial()) return {};
  return count(node);
}

/// Arithmetic on known numbers, rounded as at run time.
std::optional<double> Lowering::folded(const MapOp& map, const Node& node) const {
  const Type type = graph_.type(node.results[0]).element;
  if (type != Type::f32 && type != Type::f64) return {};
  std::vector<double> of;
  for (ValueId input : node.inputs) {
    const std::optional<double> number = constant(input);
    if (!number) return {};
    of.push_back(*number);
  }
  const auto rounded = [&](double number) {
    return type == Type::f32 ? static_cast<double>(static_cast<float>(number)) : number;
  };
  for (double& number : of) number = rounded(number);
  switch (map.function) {  // exact operations of the hardware alone: one rounding, of f32 even by way of f64
    case MapFunction::add: return rounded(of[0] + of[1]);
    case MapFunction::subtract: return rounded(of[0] - of[1]);
    case MapFunction::multiply: return rounded(of[0] * of[1]);
    case MapFunction::divide: return rounded(of[0] / of[1]);
    case MapFunction::negate: return -of[0];
    default: return {};
  }
}

/// The sum of a broadcast literal, over all ranks.
std::optional<double> Lowering::count(const Node& node) const {
  const auto* reduce = std::get_if<ReduceOp>(&node.op);
  if (!reduce || reduce->reduce != Reduce::sum) return {};
  std::optional<double> of = constant(node.inputs[0]);
  if (!of) return {};
  for (DimId dim : reduce->dims) *of *= static_cast<double>(graph_.dim(dim).size);
  return of;
}

}  // namespace mesh
