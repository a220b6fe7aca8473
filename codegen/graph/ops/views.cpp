// views.cpp: other names for the same elements: rename a dim, split one into several, merge several into one.
#include "codegen/graph/ops/definitions.h"

namespace mesh {

bool is_rename(const Op& op) { return std::holds_alternative<RenameOp>(op); }

std::optional<Regrouping> regrouping(const Op& op) {
  if (const auto* split = std::get_if<SplitOp>(&op)) return Regrouping{split->from, split->to, true};
  if (const auto* merge = std::get_if<MergeOp>(&op)) return Regrouping{merge->to, merge->from, false};
  return std::nullopt;
}

}  // namespace mesh

namespace mesh::ops {
namespace {

Types infer_rename(const Graph& graph, const Node& node) {
  const RenameOp& op = std::get<RenameOp>(node.op);
  require_operands(graph, node, 1, 1);
  require_dims(graph, node, 0, op.from);
  require(op.from.size() == op.to.size(), graph, node, "names without dims");
  ValueType type = operand(graph, node, 0);
  for (DimId& dim : type.dims) {
    const DimId name = renamed(op, dim);
    require(graph.dim(name).size == graph.dim(dim).size, graph, node, "a name of another size");
    dim = name;
  }
  return {type};
}

std::vector<Factor> rename_factors(const Graph& graph, const Node& node) {
  const RenameOp& op = std::get<RenameOp>(node.op);
  std::vector<Factor> factors;
  for (DimId dim : operand(graph, node, 0).dims) factors.push_back({{dim}, {renamed(op, dim)}, graph.dim(dim).size});
  return factors;
}

std::vector<ValueId> rename_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                     const std::vector<bool>&) {
  const RenameOp op = std::get<RenameOp>(build.graph.node(id).op);
  return {build.rename(d[0], op.to, op.from)};
}

Types infer_split(const Graph& graph, const Node& node) {
  const SplitOp& op = std::get<SplitOp>(node.op);
  require_operands(graph, node, 1, 1);
  require_dims(graph, node, 0, {op.from});
  require(size_of(graph, op.to) == graph.dim(op.from).size, graph, node, "the parts are not the whole");
  ValueType type = operand(graph, node, 0);
  const auto place = type.dims.erase(std::find(type.dims.begin(), type.dims.end(), op.from));
  type.dims.insert(place, op.to.begin(), op.to.end());
  return {type};
}

Types infer_merge(const Graph& graph, const Node& node) {
  const MergeOp& op = std::get<MergeOp>(node.op);
  require_operands(graph, node, 1, 1);
  require_dims(graph, node, 0, op.from);
  require(size_of(graph, op.from) == graph.dim(op.to).size, graph, node, "the parts are not the whole");
  ValueType type = operand(graph, node, 0);
  std::replace(type.dims.begin(), type.dims.end(), op.from[0], op.to);
  type.dims = without(type.dims, {op.from.begin() + 1, op.from.end()});
  return {type};
}

/// The merged dim is all its parts together: its axes are theirs, of the slowest part first.
std::vector<Factor> regroup_factors(const Graph& graph, const Node& node, DimId merged, const std::vector<DimId>& parts,
                                    bool splits) {
  std::vector<Factor> factors;
  for (const Factor& factor : factors_by_name(graph, node)) {
    const DimId dim = factor.operands[0] ? factor.operands[0] : factor.results[0];
    if (dim != merged && !has(parts, dim)) factors.push_back(factor);
  }
  int64_t steps = graph.dim(merged).size;
  for (size_t i = 0; i < parts.size(); ++i) {
    Factor part{splits ? Dims{merged} : Dims{parts[i]}, splits ? Dims{parts[i]} : Dims{merged},
                graph.dim(parts[i]).size};
    steps /= part.size;
    part.granule = steps;
    if (i > 0) part.slower = static_cast<int>(factors.size()) - 1;
    factors.push_back(part);
  }
  return factors;
}

std::vector<Factor> split_factors(const Graph& graph, const Node& node) {
  const SplitOp& op = std::get<SplitOp>(node.op);
  return regroup_factors(graph, node, op.from, op.to, true);
}

std::vector<Factor> merge_factors(const Graph& graph, const Node& node) {
  const MergeOp& op = std::get<MergeOp>(node.op);
  return regroup_factors(graph, node, op.to, op.from, false);
}

std::vector<ValueId> split_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                    const std::vector<bool>&) {
  const SplitOp op = std::get<SplitOp>(build.graph.node(id).op);
  return {build.value(MergeOp{op.to, op.from}, {d[0]})};
}

std::vector<ValueId> merge_gradient(GraphBuilder& build, NodeId id, std::span<const ValueId> d,
                                    const std::vector<bool>&) {
  const MergeOp op = std::get<MergeOp>(build.graph.node(id).op);
  return {build.value(SplitOp{op.to, op.from}, {d[0]})};
}

Dims renamed_order(const MemoryOrders& orders, const Node& node, size_t) {
  Dims order = orders.of(node.inputs[0]);
  for (DimId& dim : order) dim = renamed(std::get<RenameOp>(node.op), dim);
  return order;
}

Dims split_order(const MemoryOrders& orders, const Node& node, size_t) {
  const SplitOp& op = std::get<SplitOp>(node.op);
  return replaced(orders.of(node.inputs[0]), {op.from}, op.to);
}

Dims merged_order(const MemoryOrders& orders, const Node& node, size_t) {
  const MergeOp& op = std::get<MergeOp>(node.op);
  return replaced(orders.of(node.inputs[0]), op.from, {op.to});
}

/// What is put together can be put together in the order in which it is merged.
void wish_of_merge(const Graph& graph, const Node& node, const std::function<void(ValueId, Dims)>& wish_for) {
  if (!std::holds_alternative<ConcatOp>(graph.node(graph.value(node.inputs[0]).producer).op)) return;
  const MergeOp& op = std::get<MergeOp>(node.op);
  wish_for(node.inputs[0], replaced(graph.type(node.results[0]).dims, {op.to}, op.from));
}

Formula rename_formula(const Op&) { return {.of_formulas = true}; }

Horizons rename_horizon(const Graph&, const Node& node, std::span<const Horizon> of) {
  return {renamed(of[0], [&](DimId dim) { return renamed(std::get<RenameOp>(node.op), dim); })};
}
Horizons split_horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  return horizon_along(graph, node, of, {std::get<SplitOp>(node.op).from}, "cuts into several dims");
}
Horizons merge_horizon(const Graph& graph, const Node& node, std::span<const Horizon> of) {
  return {1, along(graph, of, std::get<MergeOp>(node.op).from, "puts into one dim with another")};
}

}  // namespace

const OpDefinition& definition_of(const RenameOp&) {
  static constexpr OpDefinition rename{
      .name = "rename",
      .called = nullptr,
      .infer = infer_rename,
      .factors = rename_factors,
      .partial = linear_in_first,
      .gradient = rename_gradient,
      .expand = nullptr,
      .reduction = nullptr,
      .number = number_of_operand,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = rename_horizon,
      .flops = no_flops,
      .effort = costs<Effort::view>,
      .narrow = Narrow::handed_on,
      .reads_elements = in_nests,
      .formula = rename_formula,
      .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, renamed_order, nullptr},
  };
  return rename;
}

const OpDefinition& definition_of(const SplitOp&) {
  static constexpr OpDefinition split{
      .name = "split",
      .called = nullptr,
      .infer = infer_split,
      .factors = split_factors,
      .partial = linear_in_first,
      .gradient = split_gradient,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = split_horizon,
      .flops = no_flops,
      .effort = costs<Effort::view>,
      .narrow = Narrow::handed_on,
      .reads_elements = in_memory,
      .formula = no_formula,
      .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, split_order, nullptr},
  };
  return split;
}

const OpDefinition& definition_of(const MergeOp&) {
  static constexpr OpDefinition merge{
      .name = "merge",
      .called = nullptr,
      .infer = infer_merge,
      .factors = merge_factors,
      .partial = linear_in_first,
      .gradient = merge_gradient,
      .expand = nullptr,
      .reduction = nullptr,
      .number = nullptr,
      .names_dims_alike = false,
      .works_along_dims = true,
      .causality = merge_horizon,
      .flops = no_flops,
      .effort = costs<Effort::view>,
      .narrow = Narrow::handed_on,
      .reads_elements = in_memory,
      .formula = no_formula,
      .memory_order = MemoryOrder{MemoryOrder::Kind::anchored, merged_order, wish_of_merge},
  };
  return merge;
}

}  // namespace mesh::ops
