#include "codegen/generation/caches.h"

#include "codegen/graph/rewrite.h"

namespace mesh {

std::vector<NodeId> loops_around(const Graph& graph, BodyId body) {
  std::vector<NodeId> loops;
  for (NodeId owner = graph.body(body).owner; owner; owner = graph.body(graph.node(owner).body).owner)
    loops.insert(loops.begin(), owner);
  return loops;
}

std::vector<DimId> loop_dims_around(const Graph& graph, BodyId body) {
  std::vector<DimId> dims;
  for (const NodeId loop : loops_around(graph, body)) dims.push_back(std::get<LoopOp>(graph.node(loop).op).dim);
  return dims;
}

StoredId Caches::declare(BodyId body, const std::string& path, ValueType type, Span span) {
  const std::vector<DimId> dims = loop_dims_around(graph_, body);
  type.dims.insert(type.dims.begin(), dims.begin(), dims.end());
  GraphBuilder build(graph_);
  build.span = span;
  const StoredId made = build.stored(StoredKind::cache, path, type, {});
  graph_.stored[made.index].stacked = dims.size();
  return made;
}

ValueId Caches::before(StoredId id, BodyId body) {
  const Stored stored = graph_.stored[id.index];
  ValueType type = stored.type;
  ValueId before = stored.value;
  for (const NodeId loop : loops_around(graph_, body)) {
    type.dims.erase(type.dims.begin());
    GraphBuilder build(graph_);
    build.span = stored.span;
    const ValueId turn = build.argument(type, std::get<LoopOp>(graph_.node(loop).op).body, loop, stored.path);
    std::get<LoopOp>(graph_.node(loop).op).slices.push_back({before, turn});
    before = turn;
  }
  return before;
}

void Caches::keep(StoredId id, ValueId next) {
  ValueType type = graph_.type(next);
  std::vector<NodeId> loops = loops_around(graph_, graph_.value(next).body);
  for (; !loops.empty(); loops.pop_back()) {
    const NodeId loop = loops.back();
    type.dims.insert(type.dims.begin(), std::get<LoopOp>(graph_.node(loop).op).dim);
    const ValueId stacked = GraphBuilder(graph_).argument(type, graph_.node(loop).body, loop);
    std::get<LoopOp>(graph_.node(loop).op).collects.push_back({next, stacked});
    next = stacked;
  }
  kept_.emplace_back(id, next);
}

void Caches::update(Span span) {
  GraphBuilder build(graph_);
  build.span = span;
  for (Node& node : graph_.nodes)
    if (std::holds_alternative<LoopOp>(node.op)) connect_loop(node);
  for (const auto& [stored, next] : kept_) build.append(UpdateOp{stored}, {next});
}

}  // namespace mesh
