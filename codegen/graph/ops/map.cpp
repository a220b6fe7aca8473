// map.cpp: elementwise functions of one to three operands, broadcast by name. The rows of map_function.cpp say what
// each computes; here stand the rules they share and their derivatives.
#include <algorithm>
#include <cmath>

#include "codegen/graph/ops/definitions.h"

namespace mesh {

std::optional<MapFunction> map_function(const Op& op) {
  const MapOp* map = std::get_if<MapOp>(&op);
  return map ? std::optional(map->function) : std::nullopt;
}

std::optional<Reduce> combining(const Op& op) {
  const std::optional<MapFunction> function = map_function(op);
  if (!function) return {};
  switch (*function) {
    case MapFunction::add: return Reduce::sum;
    case MapFunction::maximum: return Reduce::max;
    case MapFunction::minimum: return Reduce::min;
    default: return {};
  }
}

}  // namespace mesh

namespace mesh::ops {
namespace {

MapFunction function_of(const Node& node) { return std::get<MapOp>(node.op).function; }

/// The operand that has all dims gives their order; where none has, the first operand's dims and then the others' new
/// ones. Of several that have all it is the first, but a condition comes after what it chooses from: a mask turns
/// nothing around.
Types infer_map(const Graph& graph, const Node& node) {
  const MapFunction function = function_of(node);
  const size_t arity = static_cast<size_t>(info(function).operands);
  require_operands(graph, node, arity, arity);
  const size_t first = function == MapFunction::where ? 1 : 0;
  for (size_t i = first; i < arity; ++i)
    require(operand(graph, node, i).element == operand(graph, node, first).element, graph, node,
            "operands of unlike element types");
  require(first == 0 || operand(graph, node, 0).element == Type::boolean, graph, node, "a condition is true or false");
  std::vector<ValueId> operands = node.inputs;
  if (function == MapFunction::where) std::rotate(operands.begin(), operands.begin() + 1, operands.end());
  std::vector<DimId> all;
  for (ValueId input : operands)
    for (DimId dim : graph.type(input).dims)
      if (!has(all, dim)) all.push_back(dim);
  for (ValueId input : operands)
    if (graph.type(input).dims.size() == all.size()) {
      all = graph.type(input).dims;
      break;
    }
  if (info(function).to_boolean) return {ValueType{Type::boolean, {}, all}};
  if (is_cast(function) && !node.results.empty()) {  // who builds a cast says of which type
    const ValueType& type = graph.type(node.results[0]);
    return {ValueType{type.element, type.index_of, all}};
  }
  ValueType type = operand(graph, node, first);
  type.dims = all;
  return {type};
}

bool is_float(Type type) { return type == Type::f32 || type == Type::f64 || type == Type::bf16 || type == Type::f16; }

PartialRule map_partial(const Graph& graph, const Node& node) {
  switch (function_of(node)) {
    case MapFunction::add:
    case MapFunction::subtract: return PartialRule::together;
    case MapFunction::multiply:
    case MapFunction::unscale: return PartialRule::each;
    case MapFunction::divide:
    case MapFunction::negate:
    case MapFunction::cast_part:
    case MapFunction::copy: return PartialRule::first;
    // Cutting fractions off, or what does not fit, is not linear; and sums are added up in what they are computed in,
    // but for those of narrow parts.
    case MapFunction::cast: {
      const Type type = graph.type(node.results[0]).element;
      return is_float(type) && computed_in(type) == type ? PartialRule::first : PartialRule::completes;
    }
    default: return PartialRule::completes;
  }
}

double map_flops(const Graph& graph, const Node& node) {
  return info(function_of(node)).flops * static_cast<double>(graph.elements(graph.type(node.results[0])));
}

/// d times the derivative of `function` by operand `which`, over the result's dims; unset where it is zero everywhere.
ValueId derivative(GraphBuilder& build, const Node& node, ValueId d, size_t which) {
  using F = MapFunction;
  const ValueId y = build.computed(node.results[0]), a = build.computed(node.inputs[0]);
  const ValueId b = node.inputs.size() > 1 ? build.computed(node.inputs[1]) : ValueId{};
  const Type element = build.graph.type(y).element;
  const auto number = [&](double value) { return build.literal(value, element); };
  const auto times = [&](ValueId slope) { return build.multiply(d, slope); };
  const auto one = [&](F f, ValueId x) { return build.map(f, {x}); };
  const auto choose = [&](ValueId condition, ValueId yes, ValueId no) {
    return build.map(F::where, {condition, yes, no});
  };
  switch (function_of(node)) {
    case F::add: return d;
    case F::subtract: return which == 0 ? d : one(F::negate, d);
    case F::multiply: return times(which == 0 ? b : a);
    case F::divide: return which == 0 ? build.divide(d, b) : one(F::negate, build.divide(times(y), b));
    case F::power:
      if (which == 0) return times(build.multiply(b, build.map(F::power, {a, build.subtract(b, number(1))})));
      return times(build.multiply(y, one(F::log, a)));
    case F::minimum:
    case F::maximum: {
      // The operand that won takes d; a tie is shared.
      const bool first = (function_of(node) == F::maximum) == (which == 0);
      const ValueId wins = build.map(first ? F::greater : F::less, {a, b});
      return choose(wins, d, choose(build.map(F::equal, {a, b}), build.multiply(d, 0.5), number(0)));
    }
    // a - b * n with a whole n, which is as good as constant.
    case F::remainder: return which == 0 ? d : one(F::negate, times(build.divide(build.subtract(a, y), b)));
    case F::negate: return one(F::negate, d);
    case F::exp: return times(y);
    case F::log: return build.divide(d, a);
    case F::sqrt: return build.divide(build.multiply(d, 0.5), y);
    case F::rsqrt: return build.multiply(times(build.multiply(y, build.multiply(y, y))), -0.5);
    case F::tanh: return times(build.subtract(number(1), one(F::square, y)));
    case F::sigmoid: return times(build.multiply(y, build.subtract(number(1), y)));
    case F::relu: return choose(build.map(F::greater, {a, number(0)}), d, number(0));
    case F::gelu: return times(one(F::gelu_slope, a));
    case F::gelu_tanh: return times(one(F::gelu_tanh_slope, a));
    case F::silu: return times(one(F::silu_slope, a));
    case F::erf: return times(build.multiply(one(F::exp, one(F::negate, one(F::square, a))), 2 / std::sqrt(M_PI)));
    case F::sin: return times(one(F::cos, a));
    case F::cos: return one(F::negate, times(one(F::sin, a)));
    case F::abs: return times(one(F::sign, a));
    case F::log1p: return build.divide(d, build.add(a, 1.0));
    case F::expm1: return times(one(F::exp, a));
    case F::softplus: return times(one(F::sigmoid, a));
    case F::square: return times(build.multiply(a, 2.0));
    case F::reciprocal: return one(F::negate, times(one(F::square, y)));
    case F::where:
      if (which == 0) return {};
      return which == 1 ? choose(a, d, number(0)) : choose(a, number(0), d);
    case F::cast:
    case F::cast_part:
      return is_float(build.graph.type(a).element) && is_float(element) ? build.cast(d, build.graph.type(a).element)
                                                                        : ValueId{};  // narrowing passes d on
    // Slopes stand in gradients only, comparisons and rounding are flat, a copy stops the gradient.
    default: return {};
  }
}

std::vector<ValueId> map_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                  const std::vector<bool>& wanted) {
  const Node node = build.graph.node(id);
  std::vector<ValueId> result(node.inputs.size());
  for (size_t i = 0; i < result.size(); ++i) {
    if (!wanted[i]) continue;
    const ValueId full = derivative(build, node, d[0], i);
    if (full) result[i] = sum_to(build, full, node.inputs[i]);
  }
  return result;
}

std::string function_name(const Op& op, size_t) { return std::string(info(std::get<MapOp>(op).function).name); }

/// Arithmetic on known numbers, rounded as at run time.
std::optional<double> number(const Graph& graph, const Node& node, const NumberOf& number_of) {
  const Type type = graph.type(node.results[0]).element;
  const auto rounded = [&](double number) {
    return type == Type::f32 ? static_cast<double>(static_cast<float>(number)) : number;
  };
  if (type != Type::f32 && type != Type::f64) return {};
  std::vector<double> of;
  for (ValueId input : node.inputs) {
    const std::optional<double> number = number_of(input);
    if (!number) return {};
    of.push_back(*number);
  }
  // Only where the number survives: a cast to a narrower type is left to run time.
  if (is_cast(function_of(node)))
    return rounded(of[0]) == of[0] || type == Type::f64 ? std::optional(of[0]) : std::nullopt;
  for (double& number : of) number = rounded(number);
  switch (function_of(node)) {  // exact operations of the hardware alone: one rounding, of f32 even by way of f64
    case MapFunction::add: return rounded(of[0] + of[1]);
    case MapFunction::subtract: return rounded(of[0] - of[1]);
    case MapFunction::multiply: return rounded(of[0] * of[1]);
    case MapFunction::divide: return rounded(of[0] / of[1]);
    case MapFunction::negate: return -of[0];
    default: return {};
  }
}

Effort effort(const Op& op) { return info(std::get<MapOp>(op).function).cheap ? Effort::cheap : Effort::dear; }

Formula formula(const Op& op) {
  const MapFunction function = std::get<MapOp>(op).function;
  return {.always = is_cast(function) || function == MapFunction::copy || function == MapFunction::unscale,
          .of_formulas = info(function).cheap,
          .in_parts = true};
}

}  // namespace

const OpDefinition& definition_of(const MapOp&) {
  static constexpr OpDefinition map{
      .name = "map",
      .called = function_name,
      .infer = infer_map,
      .factors = factors_by_name,
      .partial = map_partial,
      .gradient = map_gradient,
      .expand = nullptr,
      .reduction = nullptr,
      .number = number,
      .names_dims_alike = true,
      .works_along_dims = false,
      .causality = map_horizon,
      .flops = map_flops,
      .effort = effort,
      .narrow = Narrow::rounded,
      .reads_elements = in_nests,
      .formula = formula,
      .memory_order = MemoryOrder{MemoryOrder::Kind::elementwise, nullptr, nullptr},
  };
  return map;
}

}  // namespace mesh::ops
