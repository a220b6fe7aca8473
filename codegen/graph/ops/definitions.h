// definitions.h: the definitions of all ops, one file a family in this folder, and what they share.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "codegen/graph/dims.h"
#include "codegen/graph/horizon.h"
#include "codegen/graph/op.h"

namespace mesh::ops {

// leaves.cpp
const OpDefinition& definition_of(const ReadOp&);
const OpDefinition& definition_of(const LiteralOp&);
const OpDefinition& definition_of(const PositionOp&);
const OpDefinition& definition_of(const StepOp&);
const OpDefinition& definition_of(const RateOp&);
const OpDefinition& definition_of(const RandomOp&);
// map.cpp
const OpDefinition& definition_of(const MapOp&);
// reduce.cpp
const OpDefinition& definition_of(const BroadcastOp&);
const OpDefinition& definition_of(const ReduceOp&);
const OpDefinition& definition_of(const ArgReduceOp&);
// dot.cpp
const OpDefinition& definition_of(const DotOp&);
// views.cpp
const OpDefinition& definition_of(const RenameOp&);
const OpDefinition& definition_of(const SplitOp&);
const OpDefinition& definition_of(const MergeOp&);
// take.cpp
const OpDefinition& definition_of(const TakeOp&);
const OpDefinition& definition_of(const ScatterOp&);
// slice.cpp
const OpDefinition& definition_of(const SliceOp&);
const OpDefinition& definition_of(const PadOp&);
// shift.cpp
const OpDefinition& definition_of(const ShiftOp&);
// concat.cpp
const OpDefinition& definition_of(const ConcatOp&);
// cumulative.cpp
const OpDefinition& definition_of(const CumulativeOp&);
inline const OpDefinition& definition_of(const DefinedOp& op) { return op.kind->definition; }
// softmax.cpp
const OpDefinition& definition_of(const SoftmaxOp&);
const OpDefinition& definition_of(const LogSoftmaxOp&);
const OpDefinition& definition_of(const LogSumExpOp&);
// attention.cpp
const OpDefinition& definition_of(const AttentionOp&);
const OpDefinition& definition_of(const AttentionGradientOp&);
// structure.cpp
const OpDefinition& definition_of(const UpdateOp&);
const OpDefinition& definition_of(const UntilOp&);
const OpDefinition& definition_of(const LoopOp&);
const OpDefinition& definition_of(const ReshardOp&);

using Types = std::vector<ValueType>;

/// The dims of `all` that are not in `without`, in order.
inline std::vector<DimId> without(const std::vector<DimId>& all, const std::vector<DimId>& excluded) {
  std::vector<DimId> rest;
  for (DimId dim : all)
    if (!has(excluded, dim)) rest.push_back(dim);
  return rest;
}

/// What an op needs of its operands, said where its result's type is inferred. A pass that builds something else is
/// wrong: an internal error.
void require(bool holds, const Graph&, const Node&, const char* what);
void require_operands(const Graph&, const Node&, size_t least, size_t most);
/// That operand i has the dims.
void require_dims(const Graph&, const Node&, size_t i, const std::vector<DimId>&);
/// That operand i is of operand 0's element type.
void require_same_element(const Graph&, const Node&, size_t i);

inline const ValueType& operand(const Graph& graph, const Node& node, size_t i) { return graph.type(node.inputs[i]); }
/// The elements of several dims together.
inline int64_t size_of(const Graph& graph, const std::vector<DimId>& dims) { return graph.elements({{}, {}, dims}); }

inline PartialRule completes(const Graph&, const Node&) { return PartialRule::completes; }
inline PartialRule linear_in_first(const Graph&, const Node&) { return PartialRule::first; }
inline PartialRule linear_in_each(const Graph&, const Node&) { return PartialRule::each; }

template <Effort effort>
Effort costs(const Op&) {
  return effort;
}

inline bool in_nests(const Graph&, const Node&) { return true; }
inline bool in_memory(const Graph&, const Node&) { return false; }
inline Formula no_formula(const Op&) { return {}; }
inline Formula always_formula(const Op&) { return {.always = true}; }
inline std::optional<double> number_of_operand(const Graph&, const Node& node, const NumberOf& number_of) {
  return number_of(node.inputs[0]);
}

inline Dims as_operand(const MemoryOrders& orders, const Node& node, size_t) { return orders.of(node.inputs[0]); }
inline constexpr MemoryOrder logical_order{MemoryOrder::Kind::anchored, nullptr, nullptr};
inline constexpr MemoryOrder order_of_operand{MemoryOrder::Kind::anchored, as_operand, nullptr};

using Horizons = std::vector<Horizon>;
/// Element by element.
inline Horizons horizon_of_operands(const Graph&, const Node& node, std::span<const Horizon> operands) {
  return {node.results.size(), joined(operands)};
}
/// Of an op that sees the dims from end to end.
inline Horizons horizon_along(const Graph& graph, const Node& node, std::span<const Horizon> operands,
                              std::initializer_list<DimId> dims, const char* what) {
  return {node.results.size(), along(graph, operands, dims, what)};
}
/// Why a reduction brings in later positions.
inline std::string adds_up(const Graph& graph, DimId dim) {
  return fmt::format("it adds up over `{0}`, and nothing keeps out what comes later along `{0}`", graph.dim(dim).name);
}
inline std::string looks_through(const Graph& graph, DimId dim) {
  return fmt::format("it sees all of `{0}`, and no mask keeps out what comes later", graph.dim(dim).name);
}
Horizons map_horizon(const Graph&, const Node&, std::span<const Horizon> operands);  // map_causality.cpp

/// The factors by name; those of the given dims stay whole.
std::vector<Factor> factors_but_whole(const Graph&, const Node&, std::initializer_list<DimId> dims);

/// Nothing is computed: a view, or data that is only read.
inline double no_flops(const Graph&, const Node&) { return 0; }
/// One operation for each element of the first operand.
inline double one_each(const Graph& graph, const Node& node) {
  return static_cast<double>(graph.elements(operand(graph, node, 0)));
}
/// `d` summed over the dims that `like` lacks: the gradient of an operand that was broadcast.
inline ValueId sum_to(GraphBuilder& build, ValueId d, ValueId like) {
  const std::vector<DimId> extra = without(build.graph.type(d).dims, build.graph.type(like).dims);
  return build.reduce(Reduce::sum, d, extra);
}

}  // namespace mesh::ops
