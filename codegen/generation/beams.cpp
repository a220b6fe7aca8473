#include "codegen/generation/beams.h"

#include <algorithm>

#include "codegen/generation/caches.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/verify_graph.h"
#include "meshrt/generation.h"

namespace mesh {

std::optional<Graph> choosing_sequences(const OnePosition& position, DimId batch, DimId beam) {
  Graph graph;
  graph.model = position.graph.model;
  graph.dims = position.graph.dims;
  graph.sample_dim = position.graph.sample_dim;
  graph.bodies.push_back({});
  GraphBuilder build(graph);
  build.span = position.graph.generation->span;
  const StoredId from = build.stored(StoredKind::input, meshrt::from_input, {Type::i32, batch, {beam}}, {});
  Caches caches(graph);
  bool any = false;
  for (const Kept& kept : position.kept) {
    const auto same = [&](const Stored& other) { return other.path == kept.path; };
    const Stored& stored = *std::ranges::find_if(position.graph.stored, same);
    if (kept.what == Kept::What::given || !has(stored.type.dims, batch)) continue;
    const StoredId made = caches.declare(graph.root(), stored.path, stored.type, stored.span);
    graph.stored[made.index].stacked = stored.stacked;
    const ValueId before = graph.stored[made.index].value;
    const ValueId chosen = build.value(TakeOp{batch}, {before, graph.stored[from.index].value});
    caches.keep(made, build.in_order(build.rename(chosen, beam, batch), stored.type.dims));
    any = true;
  }
  if (!any) return std::nullopt;
  caches.update(build.span);
  verify_graph(graph, "choosing_sequences");
  return graph;
}

}  // namespace mesh
