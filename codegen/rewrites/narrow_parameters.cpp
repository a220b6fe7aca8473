#include "codegen/rewrites/narrow_parameters.h"

#include <algorithm>
#include <map>
#include <set>

#include "codegen/graph/builder.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"

namespace mesh {
namespace {

class ParameterNarrower {
 public:
  ParameterNarrower(Graph& graph, Type type) : graph_(graph), type_(type) {}

  void run() {
    for (Stored& stored : graph_.stored) {
      if (stored.kind != StoredKind::parameter || computed_in(type_) != stored.type.element) continue;
      stored.type.element = type_;
      narrow(stored.value);
    }
    run(graph_.root());
    GraphBuilder build(graph_);
    for_each_caller(graph_, [&](ValueId& value) { value = widened(build, value); });
  }

 private:
  bool is_narrow(ValueId value) const { return narrow_.contains(value); }

  void narrow(ValueId value) {
    graph_.value(value).type.element = type_;
    narrow_.insert(value);
  }

  /// Rebuilds a body. What widens a value of an enclosing body is appended there, where the loop comes next.
  void run(BodyId body) {
    std::vector<NodeId> old;
    old.swap(graph_.body(body).nodes);
    for (const NodeId id : old) {
      if (std::holds_alternative<LoopOp>(graph_.node(id).op)) loop(id);
      else if (!hands_on(id)) widen_inputs(id);
      graph_.body(body).nodes.push_back(id);
    }
    if (const NodeId owner = graph_.body(body).owner) leave_widened(owner);
  }

  /// Whether the node's result has the numbers that it reads, all of them narrow: then it has their type.
  bool hands_on(NodeId id) {
    const Node& node = graph_.node(id);
    const auto is_wide = [&](ValueId value) { return graph_.type(value).element == computed_in(type_); };
    if (node.results.size() != 1 || definition(node.op).narrow != Narrow::handed_on || node.inputs.empty() ||
        !is_narrow(node.inputs[0]) || std::ranges::any_of(node.inputs, is_wide))
      return false;
    narrow(node.results[0]);
    return true;
  }

  void widen_inputs(NodeId id) {
    GraphBuilder build = beside(graph_, graph_.node(id));
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const ValueId wide = widened(build, graph_.node(id).inputs[i]);
      graph_.node(id).inputs[i] = wide;
    }
  }

  /// Of what is stacked each turn sees a narrow part; what is carried is not narrow.
  void loop(NodeId id) {
    GraphBuilder build = beside(graph_, graph_.node(id));
    LoopOp op = std::get<LoopOp>(graph_.node(id).op);
    for (LoopOp::Carry& carry : op.carries) carry.initial = widened(build, carry.initial);
    for (const LoopOp::Slice& slice : op.slices)
      if (is_narrow(slice.stacked)) narrow(slice.turn);
    set(id, op);
    run(op.body);
  }

  /// What a turn leaves. What ends the loop stands behind it.
  void leave_widened(NodeId id) {
    LoopOp op = std::get<LoopOp>(graph_.node(id).op);
    const auto last = std::ssize(graph_.body(op.body).nodes) - 1;
    GraphBuilder build = beside(graph_, graph_.node(id));
    build.body = op.body;
    for (LoopOp::Carry& carry : op.carries) carry.leaving = widened(build, carry.leaving);
    for (LoopOp::Collect& collect : op.collects) collect.turn = widened(build, collect.turn);
    if (std::vector<NodeId>& nodes = graph_.body(op.body).nodes; until(graph_, op))
      std::rotate(nodes.begin() + last, nodes.begin() + last + 1, nodes.end());
    set(id, op);
  }

  void set(NodeId id, const LoopOp& op) {
    graph_.node(id).op = op;
    connect_loop(graph_.node(id));
  }

  /// The value in what it is computed in, made in its own body for all of its readers.
  ValueId widened(GraphBuilder build, ValueId value) {
    if (!is_narrow(value)) return value;
    const auto [known, is_new] = wide_.try_emplace(value);
    if (!is_new) return known->second;
    build.body = graph_.value(value).body;
    const ValueId wide = known->second = build.computed(value);
    graph_.value(wide).label = graph_.value(value).name;
    return wide;
  }

  Graph& graph_;
  Type type_;
  std::set<ValueId> narrow_;  // of a parameter's numbers; a spec may have others of the type
  std::map<ValueId, ValueId> wide_;
};

}  // namespace

void narrow_parameters(Graph& graph, Type type) {
  ParameterNarrower(graph, type).run();
  verify_graph(graph, "narrow_parameters");
}

}  // namespace mesh
