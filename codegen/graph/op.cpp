#include "codegen/graph/op.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/graph/ops/definitions.h"
#include "codegen/graph/print_graph.h"

namespace mesh {

const OpDefinition& definition(const Op& op) {
  return std::visit([](const auto& one) -> const OpDefinition& { return ops::definition_of(one); }, op);
}

namespace {

MemoryOrder::Kind order_kind(const Op& op) { return MemoryOrder(definition(op).memory_order).kind; }

}  // namespace

bool is_view(const Op& op) { return definition(op).effort(op) == Effort::view; }

bool is_elementwise(const Op& op) { return order_kind(op) == MemoryOrder::Kind::elementwise; }

bool is_spread(const Op& op) { return order_kind(op) == MemoryOrder::Kind::spread; }

bool widens(const Graph& graph, const Node& node) {
  if (!is_elementwise(node.op) || node.inputs.size() != 1) return false;
  const Type from = graph.type(node.inputs[0]).element;
  return is_narrow(from) && graph.type(node.results[0]).element == computed_in(from);
}

Type type_of_work(const Graph& graph, const Node& node) {
  const Type first = graph.type(node.inputs.empty() ? node.results[0] : node.inputs[0]).element;
  const bool unlike = definition(node.op).narrow == Narrow::multiplied && graph.type(node.inputs[1]).element != first;
  return unlike ? computed_in(first) : first;
}

bool is_addition(const Op& op) { return combining(op) == Reduce::sum; }

bool is_given(const Graph& graph, const Node& node) {
  if (node.results.empty() || std::holds_alternative<LoopOp>(node.op)) return false;
  if (is_spread(node.op)) return literal_number(graph, node.results[0]).has_value();
  return node.inputs.empty() && definition(node.op).flops(graph, node) == 0;
}

std::optional<DimId> positions_along(const Graph& graph, const Node& node) {
  const OpDefinition& op = definition(node.op);
  if (!node.inputs.empty() || node.results.size() != 1) return {};
  const std::optional<PositionSum> of = op.causality(graph, node, {}).at(0).position;
  if (!of || of->times.size() != 1 || of->plus != 0 || of->times.begin()->second != 1) return {};
  return of->times.begin()->first;
}

bool reads_beside(const Graph& graph, const Node& node) {
  if (is_elementwise(node.op) || is_rename(node.op)) return false;  // most are, and are asked often
  const std::vector<Factor> factors = definition(node.op).factors(graph, node);
  return std::ranges::any_of(factors, [](const Factor& factor) { return factor.margin || factor.window; });
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

std::vector<Factor> factors_but_whole(const Graph& graph, const Node& node, std::initializer_list<DimId> dims) {
  std::vector<Factor> factors = factors_by_name(graph, node);
  for (Factor& factor : factors)
    for (const std::vector<DimId>* side : {&factor.operands, &factor.results})
      for (DimId dim : *side)
        if (dim && std::ranges::find(dims, dim) != dims.end()) factor.splittable = false;
  return factors;
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

std::string simple_name(const Op& op, size_t result) {
  const OpDefinition& of = definition(op);
  return of.called ? of.called(op, result) : std::string(of.name);
}

}  // namespace mesh
