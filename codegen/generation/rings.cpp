#include "codegen/generation/rings.h"

#include <algorithm>

#include "codegen/generation/needed.h"
#include "codegen/generation/own_positions.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/rewrite.h"
#include "meshrt/generation.h"

namespace mesh {

namespace {

std::optional<StoredId> position_of(const OnePosition& made) {
  const std::vector<Stored>& stored = made.graph.stored;
  const auto asked = std::ranges::find(stored, meshrt::position_input, &Stored::path);
  if (asked == stored.end()) return std::nullopt;
  return StoredId{static_cast<uint32_t>(asked - stored.begin())};
}

std::vector<NeededPositions> needed(const OnePosition& made) {
  const std::optional<StoredId> position = position_of(made);
  return position ? needed_positions(made.graph, *position) : std::vector<NeededPositions>{};
}

bool is_window(const OnePosition& made, const NeededPositions& of) {
  return of.count > 1 && of.count < made.graph.dim(of.dim).size;
}

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

bool has_windows(const OnePosition& made) {
  return std::ranges::any_of(needed(made), [&](const NeededPositions& of) { return is_window(made, of); });
}

void keep_needed(OnePosition& made) {
  Graph& graph = made.graph;
  const std::vector<NeededPositions> all = needed(made);
  if (all.empty()) return;
  const StoredId position = *position_of(made);
  GraphBuilder build(graph);
  const StoredId last =
      made.sequences ? build.stored(StoredKind::input, meshrt::last_input, position_type({}), {}) : position;
  for (const auto& [dim, count] : all) {
    const Dim of = graph.dim(dim);
    DimId held = dim;
    if (!made.sequences && is_window(made, {dim, count})) {
      held = GraphBuilder(graph).dim("generate." + of.name, count, of.span);
      put_in_ring(made, dim, held, graph.stored[position.index].value);
    }
    graph.bounds.push_back({held, last});
  }
}

}  // namespace mesh
