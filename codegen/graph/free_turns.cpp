#include "codegen/graph/free_turns.h"

#include <algorithm>

#include "codegen/graph/rewrite.h"

namespace mesh {

bool turns_are_free(const Graph& graph, const LoopOp& loop) {
  const std::vector<NodeId>& nodes = graph.body(loop.body).nodes;
  if (!nodes.empty() && std::holds_alternative<UntilOp>(graph.node(nodes.back()).op)) return false;
  return std::ranges::all_of(loop.carries, [&](const LoopOp::Carry& carry) {
    return carry.leaving == carry.entering ||
           (only_adds_up(graph, loop, carry) && reads_in(graph, loop, carry.leaving) == 1);
  });
}

}  // namespace mesh
