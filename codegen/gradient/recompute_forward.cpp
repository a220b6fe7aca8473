#include "codegen/gradient/recompute_forward.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "codegen/graph/builder.h"
#include "codegen/graph/clone.h"
#include "codegen/graph/rewrite.h"

namespace mesh {

namespace {

class Again {
 public:
  Again(Graph& graph, BodyId body, const std::function<bool(const LoopOp&)>& divided) : graph_(graph), body_(body) {
    for (const NodeId id : graph.body(body).nodes)
      if (const auto* loop = std::get_if<LoopOp>(&graph.node(id).op); loop && divided(*loop)) divided_.insert(id);
  }

  void run() {
    const std::vector<NodeId> nodes = graph_.body(body_).nodes;
    for (const NodeId id : nodes)
      if (is_forward(id)) tell_carries_apart(id);
    std::vector<NodeId> ordered = graph_.body(body_).nodes;  // with the copies that told carries apart
    const auto gradients =
        std::stable_partition(ordered.begin(), ordered.end(), [&](NodeId id) { return is_forward(id); });
    std::for_each(gradients, ordered.end(), [&](NodeId id) { replace_reads(id); });
    std::vector<NodeId> again;
    for (const NodeId id : ordered)
      if (const auto made = again_.find(id); made != again_.end()) again.push_back(made->second->node());
    ordered.insert(gradients, again.begin(), again.end());
    graph_.body(body_).nodes = std::move(ordered);
  }

  /// Removes what nobody reads any more; what of F is left for R's sake.
  std::vector<ValueId> remove_unread() {
    std::vector<ValueId> all, needed;
    for (const NodeId id : divided_)
      for (const LoopOp::Carry& carry : loop(id).carries) all.push_back(carry.result);
    remove_dead(graph_, all);
    for (const NodeId id : divided_)
      for (const LoopOp::Carry& carry : loop(id).carries)
        if (is_begun_again(id, carry)) needed.push_back(carry.result);
    remove_dead(graph_, needed);
    return needed;
  }

 private:
  const LoopOp& loop(NodeId id) const { return std::get<LoopOp>(graph_.node(id).op); }

  bool is_begun_again(NodeId id, const LoopOp::Carry& carry) const {
    const auto made = again_.find(id);
    if (made == again_.end()) return false;
    const std::vector<LoopOp::Carry>& carries = loop(made->second->node()).carries;
    return std::ranges::find(carries, carry.initial, &LoopOp::Carry::initial) != carries.end();
  }

  bool is_forward(NodeId id) const { return graph_.node(id).part == Part::forward; }

  /// Two carries that begin with one value get a copy of it each.
  void tell_carries_apart(NodeId id) {
    if (!divided_.contains(id)) return;
    LoopOp loop = std::get<LoopOp>(graph_.node(id).op);
    for (LoopOp::Carry& carry : loop.carries) {
      if (begun_.insert(carry.initial).second) continue;
      carry.initial = beside(graph_, graph_.node(id)).map(MapFunction::copy, {carry.initial});
      std::vector<NodeId>& nodes = graph_.body(body_).nodes;
      std::rotate(std::ranges::find(nodes, id), nodes.end() - 1, nodes.end());
    }
    graph_.node(id).op = std::move(loop);
    connect_loop(graph_.node(id));
  }

  /// In the node, and in loops below it.
  void replace_reads(NodeId id) {
    std::set<ValueId> values;
    for_each_read(std::as_const(graph_).node(id), [&](ValueId value) { values.insert(value); });
    std::map<ValueId, ValueId> found;
    for (const ValueId value : values)
      if (value) found[value] = again(value);
    for_each_read(graph_.node(id), [&](ValueId& value) {
      if (value) value = found.at(value);
    });
    const auto* loop = std::get_if<LoopOp>(&graph_.node(id).op);
    if (!loop) return;
    const std::vector<NodeId> inner = graph_.body(loop->body).nodes;
    connect_loop(graph_.node(id));
    for (const NodeId one : inner) replace_reads(one);
  }

  ValueId again(ValueId value) {
    const NodeId producer = graph_.value(value).producer;
    if (graph_.value(value).body != body_ || graph_.node(producer).body != body_ || !is_forward(producer)) return value;
    std::unique_ptr<Clone>& made = again_[producer];
    if (!made) {
      std::set<ValueId> begun;
      if (divided_.contains(producer))
        for (const LoopOp::Carry& carry : loop(producer).carries) begun.insert(carry.initial);
      GraphBuilder build(graph_);
      build.body = body_;
      build.part = Part::recompute;
      made = std::make_unique<Clone>(build, producer, [this, begun](ValueId operand) {
        return begun.contains(operand) ? operand : again(operand);
      });
    }
    return made->result(value);
  }

  Graph& graph_;
  const BodyId body_;
  std::set<NodeId> divided_;
  std::set<ValueId> begun_;                         // what their carries begin with
  std::map<NodeId, std::unique_ptr<Clone>> again_;  // by the node that is made again
};

}  // namespace

std::vector<ValueId> recompute_forward(Graph& graph, BodyId body, const std::function<bool(const LoopOp&)>& divided) {
  Again again(graph, body, divided);
  again.run();
  return again.remove_unread();
}

}  // namespace mesh
