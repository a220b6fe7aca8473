#include "codegen/gradient/behind_loops.h"

#include <algorithm>
#include <map>
#include <set>

#include "codegen/gradient/place_behind.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"

namespace mesh {
namespace {

class BehindLoops {
 public:
  BehindLoops(Graph& graph, const std::vector<DimId>& names) : graph_(graph), names_(names) {}

  /// Inner loops first: what leaves one may leave the next.
  void run(BodyId body) {
    for (const NodeId id : std::vector<NodeId>(graph_.body(body).nodes)) {
      if (std::holds_alternative<LoopOp>(graph_.node(id).op)) {
        const BodyId inner = std::get<LoopOp>(graph_.node(id).op).body;
        run(inner);
        if (const std::vector<NodeId> nodes = late(inner); !nodes.empty())
          place_behind(graph_, id, [&] { move(id, nodes); });
      }
      note(id);
    }
  }

 private:
  bool has_samples(ValueId value) const {
    return std::ranges::any_of(graph_.type(value).dims, [&](DimId dim) { return std::ranges::count(names_, dim) > 0; });
  }

  /// Which results are known when all samples have been seen.
  void note(NodeId id) {
    const Node& node = graph_.node(id);
    const auto is_open = [&](ValueId value) { return has_samples(value) || open_.contains(value); };
    if (const auto* loop = std::get_if<LoopOp>(&node.op)) {
      for (const LoopOp::Carry& carry : loop->carries)
        if (!has_samples(carry.result) && is_open(carry.leaving)) open_.insert(carry.result);
      for (const LoopOp::Collect& collect : loop->collects)
        if (!has_samples(collect.stacked) && is_open(collect.turn)) open_.insert(collect.stacked);
    } else if (std::ranges::any_of(node.inputs, is_open)) {
      for (const ValueId result : node.results)
        if (!has_samples(result)) open_.insert(result);
    }
  }

  /// The nodes of a loop's body, in their order, that may stand behind it.
  std::vector<NodeId> late(BodyId body) const {
    std::set<NodeId> found;
    for (const NodeId id : graph_.body(body).nodes) {
      const Node& node = graph_.node(id);
      const bool forward = node.part == Part::forward || node.part == Part::recompute;
      if (!is_elementwise(node.op) || node.results.size() != 1 || !forward) continue;
      if (std::ranges::any_of(node.inputs, [&](ValueId value) { return open_.contains(value); })) found.insert(id);
    }
    const LoopOp& loop = std::get<LoopOp>(graph_.node(graph_.body(body).owner).op);
    const auto keep = [&](ValueId value) { return found.erase(graph_.value(value).producer) > 0; };
    for (bool changed = true; changed;) {
      changed = false;
      for (const LoopOp::Carry& carry : loop.carries) changed = keep(carry.leaving) || changed;
      for (const NodeId id : graph_.body(body).nodes)
        if (!found.contains(id))
          for_each_source(graph_, graph_.node(id), [&](ValueId value) { changed = keep(value) || changed; });
    }
    std::vector<NodeId> ordered;
    for (const NodeId id : graph_.body(body).nodes)
      if (found.contains(id)) ordered.push_back(id);
    return ordered;
  }

  void move(NodeId id, const std::vector<NodeId>& nodes) {
    std::map<ValueId, ValueId> stacked;  // of all turns, by what a turn has
    for (const LoopOp::Slice& slice : std::get<LoopOp>(graph_.node(id).op).slices) stacked[slice.turn] = slice.stacked;
    for (const NodeId inner : stacked_of(id, nodes)) {
      GraphBuilder behind = beside(graph_, graph_.node(inner));
      behind.body = graph_.node(id).body;
      behind.region = graph_.node(id).region;
      std::vector<ValueId> operands;
      for (const ValueId read : graph_.node(inner).inputs) operands.push_back(of_all_turns(behind, id, read, stacked));
      const ValueId turn = graph_.node(inner).results[0];
      stacked[turn] = behind.value(graph_.node(inner).op, operands);
      note(graph_.value(stacked[turn]).producer);
    }
    std::erase_if(graph_.body(std::get<LoopOp>(graph_.node(id).op).body).nodes,
                  [&](NodeId inner) { return std::ranges::count(nodes, inner) > 0; });
    std::erase_if(graph_.names, [&](const auto& named) {
      return std::ranges::any_of(nodes, [&](NodeId inner) { return graph_.node(inner).results[0] == named.second; });
    });
    replace(id, nodes, stacked);
  }

  /// Those that lead to something that the loop stacks: what is computed again for gradients makes no more of it.
  std::vector<NodeId> stacked_of(NodeId id, const std::vector<NodeId>& nodes) const {
    std::set<ValueId> needed;
    for (const LoopOp::Collect& collect : std::get<LoopOp>(graph_.node(id).op).collects) needed.insert(collect.turn);
    std::vector<NodeId> found;
    for (auto inner = nodes.rbegin(); inner != nodes.rend(); ++inner) {
      if (!needed.contains(graph_.node(*inner).results[0])) continue;
      needed.insert(graph_.node(*inner).inputs.begin(), graph_.node(*inner).inputs.end());
      found.insert(found.begin(), *inner);
    }
    return found;
  }

  /// What stands for a value of the loop's body behind it.
  ValueId of_all_turns(GraphBuilder& behind, NodeId id, ValueId value, std::map<ValueId, ValueId>& stacked) {
    const LoopOp& loop = std::get<LoopOp>(graph_.node(id).op);
    if (graph_.value(value).body != loop.body) return value;
    if (const auto known = stacked.find(value); known != stacked.end()) return known->second;
    const Node& maker = graph_.node(graph_.value(value).producer);
    if (maker.inputs.empty() && is_spread(maker.op)) {  // a number
      const ValueId same = behind.value(maker.op, {});
      graph_.value(same).type = graph_.type(value);
      return stacked[value] = same;
    }
    for (const LoopOp::Collect& collect : loop.collects)
      if (collect.turn == value) return stacked[value] = collect.stacked;
    const ValueId all = stack_turns(graph_, id, value);
    if (open_.contains(value)) open_.insert(all);
    return stacked[value] = all;
  }

  /// Whoever reads what the loop stacks of these nodes reads what is made behind it.
  void replace(NodeId id, const std::vector<NodeId>& nodes, const std::map<ValueId, ValueId>& stacked) {
    LoopOp loop = std::get<LoopOp>(graph_.node(id).op);
    for (const NodeId inner : nodes) {
      const ValueId turn = graph_.node(inner).results[0];
      for (const LoopOp::Collect& collect : loop.collects) {
        if (collect.turn != turn) continue;
        const NodeId maker = graph_.value(stacked.at(turn)).producer;
        GraphBuilder behind = beside(graph_, graph_.node(maker));
        const ValueId made = behind.in_order(stacked.at(turn), graph_.type(collect.stacked).dims);
        graph_.value(made).take_names(graph_.value(collect.stacked));
        graph_.value(made).label = graph_.value(collect.stacked).label;
        for_each_use(graph_, [&](ValueId& value) {
          if (value == collect.stacked) value = made;
        });
      }
    }
    // for_each_use has changed the loop's own list too.
    std::vector<LoopOp::Collect> left;
    for (const LoopOp::Collect& collect : loop.collects)
      if (std::ranges::none_of(nodes, [&](NodeId inner) { return graph_.node(inner).results[0] == collect.turn; }))
        left.push_back(collect);
    std::get<LoopOp>(graph_.node(id).op).collects = std::move(left);
    connect_loop(graph_.node(id));
  }

  Graph& graph_;
  const std::vector<DimId>& names_;
  std::set<ValueId> open_;
};

}  // namespace

void complete_behind_loops(Graph& graph, const std::vector<DimId>& names) {
  BehindLoops(graph, names).run(graph.root());
}

}  // namespace mesh
