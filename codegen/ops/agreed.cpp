// agreed.cpp: what a collective of a manual region gives all ranks. The value as it is, but complete, and with the dims
// that were put together whole: the layout sends what the region says, where it says it, and not later or less.
#include "codegen/elaborate/manual_spread.h"
#include "codegen/graph/ops/definitions.h"
#include "codegen/program/lowering.h"

namespace mesh {
namespace {

const DefinedOp& op_of(const Node& node) { return std::get<DefinedOp>(node.op); }

ops::Types types(const Graph& graph, const Node& node) {
  ops::require_operands(graph, node, 1, 1);
  ops::require_dims(graph, node, 0, op_of(node).dims);
  return {ops::operand(graph, node, 0)};
}

std::vector<Factor> factors(const Graph& graph, const Node& node) {
  std::vector<Factor> factors = factors_by_name(graph, node);
  for (Factor& factor : factors) factor.splittable = !has(op_of(node).dims, factor.operands[0]);
  return factors;
}

std::vector<ValueId> gradient(GraphBuilder&, NodeId, std::span<const ValueId> d, const std::vector<bool>&) {
  return {d[0]};
}

std::string text(const Graph&, const DefinedOp& op) { return op.dims.empty() ? "all_reduce" : "all_gather"; }

/// The same memory.
void lower_agreed(Lowering& to, const Node& node) { to.preset(node.results[0], to.in_memory(node.inputs[0])); }

constinit const OpKind kind{
    .definition =
        {
            .name = "agreed",
            .called = nullptr,
            .infer = types,
            .factors = factors,
            .partial = ops::completes,
            .gradient = gradient,
            .expand = nullptr,
            .reduction = nullptr,
            .number = ops::number_of_operand,
            .names_dims_alike = false,
            .works_along_dims = false,
            .causality = ops::horizon_of_operands,
            .flops = ops::no_flops,
            .effort = ops::costs<Effort::dear>,
            .narrow = Narrow::handed_on,
            .reads_elements = ops::in_memory,
            .formula = ops::no_formula,
            .memory_order = ops::order_of_operand,
        },
    .text = text,
    .lower = lower_agreed,
    .by_neighbours = nullptr,
};

}  // namespace

Op elaboration::agreed(const std::vector<DimId>& gathered) { return DefinedOp{&kind, gathered, {}}; }

}  // namespace mesh
