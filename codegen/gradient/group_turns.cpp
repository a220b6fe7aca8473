#include "codegen/gradient/group_turns.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/graph/builder.h"
#include "codegen/graph/rewrite.h"

namespace mesh {
namespace {

class Groups {
 public:
  Groups(Graph& graph, DimId turns, DimId groups, DimId within, bool sums_apart)
      : graph_(graph), turns_(turns), groups_(groups), within_(within), sums_apart_(sums_apart) {}

  /// The node becomes the loop over groups; a new one in its body has the turns of a group.
  void make(NodeId id) {
    const LoopOp turns = std::get<LoopOp>(graph_.node(id).op);
    const Node node = graph_.node(id);
    around_ = node.body;
    outer_ = id;
    inner_ = NodeId{static_cast<uint32_t>(graph_.nodes.size())};
    GraphBuilder build(graph_);
    LoopOp groups{groups_, build.new_body(outer_), turns.reverse, {}, {}, {}, {}};
    graph_.nodes.push_back({LoopOp{}, {}, {}, groups.body, node.part, node.span, node.scope, node.region, node.call});
    graph_.body(groups.body).nodes.push_back(inner_);
    graph_.body(turns.body).owner = inner_;
    LoopOp within{within_, turns.body, turns.reverse, {}, {}, {}, {}};

    for (const LoopOp::Carry& carry : turns.carries)
      if (sums_apart_ && only_adds_up(graph_, turns, carry)) add_up(carry, groups, within);
      else carry_on(carry, groups, within);
    for (const LoopOp::Slice& slice : turns.slices) take(slice, groups, within);
    for (const LoopOp::Collect& collect : turns.collects) keep(collect, groups, within);
    if (turns.index) count(turns.index, groups, within);
    graph_.node(inner_).op = std::move(within);
    connect_loop(graph_.node(inner_));
    graph_.node(outer_).op = std::move(groups);
    connect_loop(graph_.node(outer_));
  }

 private:
  void carry_on(const LoopOp::Carry& carry, LoopOp& groups, LoopOp& within) {
    GraphBuilder build(graph_);
    const ValueId entering =
        build.argument_called(graph_.value(carry.entering), graph_.type(carry.entering), groups.body, outer_);
    const ValueId leaving = build.argument(graph_.type(carry.result), groups.body, inner_);
    groups.carries.push_back({carry.initial, entering, leaving, carry.result});
    within.carries.push_back({entering, carry.entering, carry.leaving, leaving});
    graph_.value(carry.entering).producer = inner_;
  }

  /// A group has a sum of its own, which is added to that of the groups before.
  void add_up(const LoopOp::Carry& carry, LoopOp& groups, LoopOp& within) {
    GraphBuilder build = beside(graph_, graph_.node(inner_));
    build.body = groups.body;
    const ValueType type = graph_.type(carry.result);
    std::vector<NodeId>& nodes = graph_.body(groups.body).nodes;
    const auto before = static_cast<std::ptrdiff_t>(nodes.size());
    const ValueId zeros = build.broadcast(build.literal(0, type.element), type.dims);
    std::rotate(nodes.begin(), nodes.begin() + before, nodes.end());
    const ValueId entering =
        build.argument_called(graph_.value(carry.entering), graph_.type(carry.entering), groups.body, outer_);
    const ValueId sum = build.argument(type, groups.body, inner_);
    groups.carries.push_back({carry.initial, entering, build.add(entering, sum), carry.result});
    within.carries.push_back({zeros, carry.entering, carry.leaving, sum});
    graph_.value(carry.entering).producer = inner_;
  }

  /// [turns, ..] as [groups, within, ..]
  void take(const LoopOp::Slice& slice, LoopOp& groups, LoopOp& within) {
    const bool in_groups = graph_.type(slice.stacked).dims.front() == groups_;
    const ValueId grouped =
        in_groups ? slice.stacked : beside_outer(SplitOp{turns_, {groups_, within_}}, slice.stacked, 0);
    ValueType group = graph_.type(grouped);
    group.dims.erase(group.dims.begin());
    const ValueId turns = GraphBuilder(graph_).argument(std::move(group), groups.body, outer_);
    groups.slices.push_back({grouped, turns});
    within.slices.push_back({turns, slice.turn});
    graph_.value(slice.turn).producer = inner_;
  }

  /// The stack of all turns is that of the groups' stacks.
  void keep(const LoopOp::Collect& collect, LoopOp& groups, LoopOp& within) {
    ValueType type = graph_.type(collect.stacked);
    GraphBuilder build(graph_);
    type.dims.front() = within_;
    const ValueId group = build.argument(type, groups.body, inner_);
    type.dims.insert(type.dims.begin(), groups_);
    const ValueId stacked = build.argument(type, around_, outer_);
    within.collects.push_back({collect.turn, group});
    groups.collects.push_back({group, stacked});
    const ValueId merged = beside_outer(MergeOp{{groups_, within_}, turns_}, stacked, 1);
    const NodeId last = graph_.value(merged).producer;
    graph_.node(last).results = {collect.stacked};
    graph_.value(collect.stacked).producer = last;
  }

  /// Of turn i of group g: size * g + i.
  void count(ValueId index, LoopOp& groups, LoopOp& within) {
    const ValueType type = graph_.type(index);
    groups.index = GraphBuilder(graph_).argument(type, groups.body, outer_);
    within.index = GraphBuilder(graph_).argument(type, within.body, inner_);
    GraphBuilder build = beside(graph_, graph_.node(inner_));
    build.body = within.body;
    std::vector<NodeId>& nodes = graph_.body(within.body).nodes;
    const auto before = static_cast<std::ptrdiff_t>(nodes.size());
    const ValueId turn =
        build.add(build.multiply(groups.index, static_cast<double>(graph_.dim(within_).size)), within.index);
    std::rotate(nodes.begin(), nodes.begin() + before, nodes.end());
    const NodeId last = graph_.value(turn).producer;
    graph_.node(last).results = {index};
    graph_.value(index).producer = last;
    graph_.value(index).body = within.body;
  }

  /// A view in front of the loop over groups, or behind it.
  ValueId beside_outer(Op view, ValueId of, int behind) {
    GraphBuilder build = beside(graph_, graph_.node(outer_));
    const ValueId made = build.value(std::move(view), {of});
    std::vector<NodeId>& nodes = graph_.body(around_).nodes;
    std::rotate(std::ranges::find(nodes, outer_) + behind, nodes.end() - 1, nodes.end());
    return made;
  }

  Graph& graph_;
  const DimId turns_, groups_, within_;
  const bool sums_apart_;
  NodeId outer_, inner_;  // of the loop that is made
  BodyId around_;
};

/// Bodies are looked at from the outside in, so that a new one is no second time.
std::vector<NodeId> loops_over(const Graph& graph, DimId dim) {
  std::vector<NodeId> loops;
  for (const Body& body : graph.bodies)
    for (const NodeId id : body.nodes)
      if (const auto* loop = std::get_if<LoopOp>(&graph.node(id).op); loop && loop->dim == dim) loops.push_back(id);
  return loops;
}

}  // namespace

ComputedAgain group_turns(Graph& graph, const ComputedAgain& again) {
  ComputedAgain grouped{{}, again.values};
  for (const auto& [dim, size] : again.loops) {
    const std::vector<NodeId> loops = size > 1 ? loops_over(graph, dim) : std::vector<NodeId>();
    if (size == 1) grouped.loops[dim] = 1;
    if (loops.empty()) continue;
    const Dim of = graph.dim(dim);
    GraphBuilder build(graph);
    const DimId groups = build.dim(of.name + ".group", of.size / size, of.span, fmt::format("{} / {}", of.name, size));
    const DimId within = build.dim(of.name + ".within", size, of.span);
    for (const NodeId id : loops) Groups(graph, dim, groups, within, false).make(id);
    grouped.loops[groups] = 1;
    graph.grouped.push_back({dim, groups, size});
  }
  return grouped;
}

void nest_turns(Graph& graph, DimId turns, DimId groups, DimId within) {
  for (const NodeId id : loops_over(graph, turns)) Groups(graph, turns, groups, within, true).make(id);
}

}  // namespace mesh
