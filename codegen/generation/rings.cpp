#include "codegen/generation/rings.h"

#include <algorithm>

#include "codegen/generation/needed.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/rewrite.h"
#include "meshrt/generation.h"

namespace mesh {

namespace {

/// Everything that has the dim has the slots in its place.
void put_in_ring(OnePosition& made, DimId dim, DimId slots, ValueId position) {
  Graph& graph = made.graph;
  const auto replace = [&](Dims& dims) { std::ranges::replace(dims, dim, slots); };
  for (Value& value : graph.values) replace(value.type.dims);
  for (Stored& stored : graph.stored)
    if (stored.kind == StoredKind::cache) replace(stored.type.dims);
  for (Node& node : graph.nodes)
    for_each_dim(node.op, [&](DimId& one) {
      if (one == dim) one = slots;
    });
  for (Kept& kept : made.kept) {
    if (!has(kept.type.dims, dim)) continue;
    replace(kept.type.dims);
    kept.ring = Kept::Ring{dim, slots};
  }
  expand_nodes(graph, [&](GraphBuilder& build, NodeId id) -> std::vector<ValueId> {
    const auto* of = std::get_if<PositionOp>(&build.graph.node(id).op);
    if (of == nullptr || of->dim != slots) return {};
    return {positions_in_ring(build, position, slots)};
  });
}

}  // namespace

ValueId positions_in_ring(GraphBuilder& build, ValueId position, DimId slots) {
  const ValueId count = build.literal(static_cast<double>(build.graph.dim(slots).size), Type::i32);
  const ValueId back = build.map(MapFunction::remainder, {build.subtract(position, build.position(slots)), count});
  return build.subtract(position, back);
}

void keep_needed(OnePosition& made) {
  Graph& graph = made.graph;
  const auto asked = std::ranges::find(graph.stored, meshrt::position_input, &Stored::path);
  if (asked == graph.stored.end()) return;
  const StoredId position{static_cast<uint32_t>(asked - graph.stored.begin())};
  for (const auto& [dim, count] : needed_positions(graph, position)) {
    const Dim of = graph.dim(dim);
    DimId held = dim;
    if (count < of.size) {
      held = GraphBuilder(graph).dim("generate." + of.name, count, of.span);
      put_in_ring(made, dim, held, graph.stored[position.index].value);
    }
    graph.bounds.push_back({held, position});
  }
}

}  // namespace mesh
