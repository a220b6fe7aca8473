#include "codegen/graph/free_turns.h"

#include <algorithm>
#include <functional>

#include "codegen/graph/rewrite.h"

namespace mesh {
namespace {

/// Visits every node of a loop's body, those of loops within it too.
void for_each_inside(const Graph& graph, const LoopOp& loop, const std::function<void(NodeId)>& visit) {
  for (const NodeId id : graph.body(loop.body).nodes) {
    visit(id);
    if (const auto* inner = std::get_if<LoopOp>(&graph.node(id).op)) for_each_inside(graph, *inner, visit);
  }
}

/// Whether a turn does nothing with a sum but add to it.
bool is_untouched(const Graph& graph, const LoopOp& loop, const LoopOp::Carry& sum) {
  const auto is_it = [&](ValueId value) { return value == sum.entering || value == sum.leaving; };
  bool untouched =
      std::ranges::none_of(loop.collects, is_it, &LoopOp::Collect::turn) &&
      std::ranges::none_of(loop.carries, [&](const LoopOp::Carry& one) { return one != sum && is_it(one.leaving); });
  for_each_inside(graph, loop, [&](NodeId id) {
    if (id == graph.value(sum.leaving).producer) return;
    for_each_read(graph.node(id), [&](ValueId value) { untouched = untouched && !is_it(value); });
  });
  return untouched;
}

}  // namespace

bool turns_are_free(const Graph& graph, const LoopOp& loop) {
  const std::vector<NodeId>& nodes = graph.body(loop.body).nodes;
  if (!nodes.empty() && std::holds_alternative<UntilOp>(graph.node(nodes.back()).op)) return false;
  return std::ranges::all_of(loop.carries, [&](const LoopOp::Carry& carry) {
    return carry.leaving == carry.entering || (only_adds_up(graph, loop, carry) && is_untouched(graph, loop, carry));
  });
}

}  // namespace mesh
