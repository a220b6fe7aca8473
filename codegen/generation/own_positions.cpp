#include "codegen/generation/own_positions.h"

#include <algorithm>

#include "codegen/generation/generation_entries.h"
#include "codegen/generation/horizons.h"
#include "codegen/graph/dims.h"

namespace mesh {

DimId separate_sequences(const Graph& graph) {
  const Generation& asked = *graph.generation;
  const DimId sequences = batch_of(graph);
  if (!sequences || graph.dim(sequences).size == 1) return {};
  const std::vector<Horizon> horizons = horizons_of(graph, asked.input, asked.along).of;
  const auto depends = [&](ValueId id) { return horizons[id.index].depends(); };
  const auto is_along = [&](ValueId id, DimId dim) { return horizons[id.index].upto.contains(dim); };
  for (uint32_t i = 0; i < graph.values.size(); ++i)
    if (depends({i}) && !has(graph.type({i}).dims, sequences)) return {};
  for (const Node& node : graph.nodes) {
    if (std::ranges::any_of(node.inputs, depends) && names_dim(node.op, sequences)) return {};
    const auto* loop = std::get_if<LoopOp>(&node.op);
    if (loop == nullptr) continue;
    // What a loop along the sequence carries must be some sequence's.
    const bool along = std::ranges::any_of(graph.body(loop->body).nodes, [&](NodeId inner) {
      return std::ranges::any_of(graph.node(inner).results, [&](ValueId id) { return is_along(id, loop->dim); });
    });
    if (along && !std::ranges::all_of(loop->carries, depends, &LoopOp::Carry::entering)) return {};
  }
  return sequences;
}

ValueType position_type(DimId sequences) {
  ValueType type{Type::i32, {}, {}};
  if (sequences) type.dims = {sequences};
  return type;
}

ValueId element_at(GraphBuilder& build, ValueId table, DimId dim, ValueId index) {
  const ValueType type = build.graph.type(table);
  const auto in_table = [&](DimId one) { return has(type.dims, one); };
  if (std::ranges::none_of(build.graph.type(index).dims, in_table))
    return build.value(TakeOp{dim}, {table, build.cast(index, Type::i32, dim)});
  // The largest of that element and of nothing else: of truth values as numbers.
  const Type element = type.element == Type::boolean ? Type::i32 : type.element;
  const ValueId here = build.map(MapFunction::equal, {build.broadcast(index, {&dim, 1}), build.position(dim)});
  const ValueId nothing = build.literal(neutral(Reduce::max), element);
  const ValueId others = build.map(MapFunction::where, {here, build.cast(table, element), nothing});
  return build.cast(build.reduce(Reduce::max, others, {&dim, 1}), type.element, type.index_of);
}

}  // namespace mesh
