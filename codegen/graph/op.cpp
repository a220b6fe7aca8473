#include "codegen/graph/op.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/graph/ops/definitions.h"
#include "codegen/graph/print_graph.h"

namespace mesh {

const OpDefinition& definition(const Op& op) {
  // In the order of the variant `Op`.
  static const OpDefinition* const table[] = {
      &ops::read,        &ops::literal,     &ops::position,  &ops::step,
      &ops::rate,        &ops::random,      &ops::map,       &ops::broadcast,
      &ops::reduce,      &ops::arg_reduce,  &ops::dot,       &ops::rename,
      &ops::split,       &ops::merge,       &ops::take,      &ops::take_gradient,
      &ops::slice,       &ops::pad,         &ops::shift,     &ops::concat,
      &ops::cumulative,  &ops::sort,        &ops::place,     &ops::softmax,
      &ops::log_softmax, &ops::log_sum_exp, &ops::attention, &ops::attention_gradient,
      &ops::update,      &ops::until,       &ops::loop,      &ops::reshard};
  static_assert(std::size(table) == std::variant_size_v<Op>);
  return *table[op.index()];
}

namespace ops {

void require(bool holds, const Graph& graph, const Node& node, const char* what) {
  if (holds) return;
  std::string operands;
  for (ValueId input : node.inputs)
    operands += fmt::format("{}{} : {}", operands.empty() ? "" : ", ", value_name(graph, input),
                            to_string(graph, graph.type(input)));
  internal_error(fmt::format("{}({}): {}", op_text(graph, node.op), operands, what));
}

void require_operands(const Graph& graph, const Node& node, size_t least, size_t most) {
  require(node.inputs.size() >= least && node.inputs.size() <= most, graph, node, "another number of operands");
}

void require_dims(const Graph& graph, const Node& node, size_t i, const std::vector<DimId>& dims) {
  for (DimId dim : dims)
    if (!has(operand(graph, node, i).dims, dim))
      require(false, graph, node, fmt::format("operand {} has no dim {}", i, graph.dim(dim).name).c_str());
}

void require_same_element(const Graph& graph, const Node& node, size_t i) {
  require(operand(graph, node, i).element == operand(graph, node, 0).element, graph, node,
          "operands of unlike element types");
}

}  // namespace ops

std::vector<Factor> factors_by_name(const Graph& graph, const Node& node) {
  std::vector<Factor> factors;
  std::vector<DimId> seen;
  const size_t operands = node.inputs.size(), results = node.results.size();
  const auto at = [&](DimId dim) -> Factor& {
    const auto found = std::find(seen.begin(), seen.end(), dim);
    if (found != seen.end()) return factors[found - seen.begin()];
    seen.push_back(dim);
    factors.push_back({std::vector<DimId>(operands), std::vector<DimId>(results), graph.dim(dim).size});
    return factors.back();
  };
  for (size_t i = 0; i < operands; ++i)
    for (DimId dim : graph.type(node.inputs[i]).dims) at(dim).operands[i] = dim;
  for (size_t i = 0; i < results; ++i)
    for (DimId dim : graph.type(node.results[i]).dims) at(dim).results[i] = dim;
  return factors;
}

std::string simple_name(const Op& op) {
  if (const auto* map = std::get_if<MapOp>(&op)) return std::string(info(map->function).name);
  if (const auto* reduce = std::get_if<ReduceOp>(&op)) return meshrt::name_of(reduce->reduce);
  if (std::holds_alternative<DotOp>(op)) return "product";
  return std::string(definition(op).name);
}

}  // namespace mesh
