#include "codegen/gradient/place_behind.h"

#include <algorithm>

#include "codegen/graph/builder.h"

namespace mesh {

ValueId stack_turns(Graph& graph, NodeId loop, ValueId turn) {
  auto& of = std::get<LoopOp>(graph.node(loop).op);
  ValueType type = graph.type(turn);
  type.dims.insert(type.dims.begin(), of.dim);
  const ValueId all = GraphBuilder(graph).argument(type, graph.node(loop).body, loop);
  const Value& value = graph.value(turn);
  graph.value(all).label = value.name.empty() ? value.label : value.name;
  of.collects.push_back({turn, all});
  return all;
}

void place_behind(Graph& graph, NodeId loop, const std::function<void()>& append) {
  const BodyId around = graph.node(loop).body;
  const auto before = static_cast<std::ptrdiff_t>(graph.body(around).nodes.size());
  append();
  std::vector<NodeId>& nodes = graph.body(around).nodes;
  std::rotate(std::ranges::find(nodes, loop) + 1, nodes.begin() + before, nodes.end());
}

}  // namespace mesh
