#include "codegen/layout/divided.h"

#include <algorithm>

#include "codegen/graph/builder.h"
#include "codegen/graph/free_turns.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"
#include "codegen/layout/declared.h"
#include "codegen/layout/sharded_graph.h"
#include "codegen/layout/stages.h"

namespace mesh {
namespace {

/// A turn needs nothing of others, and sums begin at zero: of another number each rank would add its own.
bool may_be_divided(const Graph& graph, const LoopOp& loop) {
  return turns_are_free(graph, loop) && std::ranges::all_of(loop.carries, [&](const LoopOp::Carry& carry) {
           return carry.leaving == carry.entering || literal_number(graph, carry.initial) == 0;
         });
}

class Finder {
 public:
  Finder(const Graph& graph, const Layout& layout, const Stages& stages)
      : graph_(graph), layout_(layout), stages_(stages), declared_(graph, layout) {}

  DividedLoops run() {
    look(graph_.root());
    return std::move(found_);
  }

 private:
  void look(BodyId body) {
    for (const NodeId id : graph_.body(body).nodes) {
      const auto* loop = std::get_if<LoopOp>(&graph_.node(id).op);
      if (!loop) continue;
      if (stages_.is_divided(*loop)) {
        found_[loop->body] = stages_.split_of(*loop);
      } else if (const auto split = ruled_turns(layout_, graph_.node(id).scope, loop->dim)) {
        if (may_be_divided(graph_, *loop) && is_free_of(*loop, split->axes) &&
            std::ranges::none_of(varying_in(graph_, found_, body),
                                 [&](const Where& where) { return contains(split->axes, where.axis); }))
          found_[loop->body] = *split;
      }
      look(loop->body);
    }
  }

  /// Whether no rule splits what a turn takes, carries or makes over one of the axes.
  bool is_free_of(const LoopOp& loop, const std::vector<AxisId>& axes) const {
    const auto is_free = [&](ValueId value) {
      return std::ranges::none_of(declared_.of(value), [&](const std::optional<DimPlacement>& dim) {
        return dim && std::ranges::any_of(dim->axes, [&](AxisId axis) { return contains(axes, axis); });
      });
    };
    for (const LoopOp::Carry& carry : loop.carries)
      if (!is_free(carry.entering)) return false;
    for (const LoopOp::Slice& slice : loop.slices)
      if (!is_free(slice.turn)) return false;
    for (const NodeId id : graph_.body(loop.body).nodes) {
      if (!std::ranges::all_of(graph_.node(id).results, is_free)) return false;
      if (const auto* inner = std::get_if<LoopOp>(&graph_.node(id).op); inner && !is_free_of(*inner, axes))
        return false;
    }
    return true;
  }

  const Graph& graph_;
  const Layout& layout_;
  const Stages& stages_;
  const Declared declared_;
  DividedLoops found_;
};

}  // namespace

std::optional<DimPlacement> ruled_turns(const Layout& layout, const std::string& scope, DimId dim) {
  const Rule* rule = rule_for(layout, ValueKind::nameless, {scope}, {dim}, dim);
  if (!rule || rule->deal || layout.mesh.size(rule->axes) == 1) return {};
  if (layout.pipeline && (layout.pipeline.loop_over(dim) || contains(rule->axes, layout.pipeline.axis))) return {};
  return DimPlacement{rule->axes, {}, {}};
}

DividedLoops divided_loops(const Graph& graph, const Layout& layout, const Stages& stages) {
  return Finder(graph, layout, stages).run();
}

std::vector<Where> varying_in(const Graph& graph, const DividedLoops& divided, BodyId body) {
  std::vector<Where> all;
  for (NodeId loop = graph.body(body).owner; loop; body = graph.node(loop).body, loop = graph.body(body).owner)
    if (const auto found = divided.find(body); found != divided.end())
      std::ranges::copy(varying_turns(std::get<LoopOp>(graph.node(loop).op).dim, found->second),
                        std::back_inserter(all));
  std::ranges::sort(all);
  return all;
}

int64_t turns_made(const ShardedGraph& sharded, const LoopOp& loop) {
  const int64_t turns = sharded.graph.dim(loop.dim).size;
  const auto found = sharded.divided.find(loop.body);
  return found == sharded.divided.end() ? turns : largest_extent(sharded.layout.mesh, turns, found->second);
}

namespace {

/// The loop's carry from zero on, and behind the loop the sum with what it began at, as its readers know it.
void begin_at_zero(Graph& graph, NodeId id, size_t at) {
  const Node loop = graph.node(id);
  GraphBuilder build = beside(graph, loop);
  std::vector<NodeId>& nodes = graph.body(loop.body).nodes;
  const auto moved_to = [&](std::ptrdiff_t place, std::ptrdiff_t from) {
    std::rotate(nodes.begin() + place, nodes.begin() + from, nodes.end());
  };
  const auto end = [&] { return static_cast<std::ptrdiff_t>(nodes.size()); };
  LoopOp op = std::get<LoopOp>(loop.op);
  LoopOp::Carry& carry = op.carries[at];
  const ValueType type = graph.type(carry.result);
  const ValueId begin = carry.initial, total = carry.result;
  std::ptrdiff_t added = end();
  carry.initial = build.broadcast(build.literal(0, type.element), type.dims);
  moved_to(std::ranges::find(nodes, id) - nodes.begin(), added);
  carry.result = build.argument(type, loop.body, id);
  added = end();
  const ValueId sum = build.add(carry.result, build.in_order(begin, type.dims));
  const NodeId last = graph.value(sum).producer;
  graph.node(last).results = {total};
  graph.value(total).producer = last;
  moved_to(std::ranges::find(nodes, id) - nodes.begin() + 1, added);
  graph.node(id).op = std::move(op);
  connect_loop(graph.node(id));
}

}  // namespace

void begin_divided_sums_at_zero(Graph& graph, const Layout& layout) {
  for (uint32_t i = 0, count = static_cast<uint32_t>(graph.nodes.size()); i < count; ++i) {
    const auto* loop = std::get_if<LoopOp>(&graph.nodes[i].op);
    if (!loop || !ruled_turns(layout, graph.nodes[i].scope, loop->dim) || !turns_are_free(graph, *loop)) continue;
    const std::vector<NodeId>& beside = graph.body(graph.nodes[i].body).nodes;
    if (std::ranges::find(beside, NodeId{i}) == beside.end()) continue;  // dropped
    for (size_t at = 0; at < std::get<LoopOp>(graph.nodes[i].op).carries.size(); ++at) {
      const LoopOp& now = std::get<LoopOp>(graph.nodes[i].op);
      const LoopOp::Carry& carry = now.carries[at];
      if (only_adds_up(graph, now, carry) && literal_number(graph, carry.initial) != 0)
        begin_at_zero(graph, NodeId{i}, at);
    }
  }
}

}  // namespace mesh
