#include "codegen/gradient/weight_loops.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "codegen/graph/builder.h"
#include "codegen/graph/clone.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"

namespace mesh {

namespace {

class WeightLoop {
 public:
  WeightLoop(Graph& graph, NodeId inputs)
      : graph_(graph), inputs_(inputs), from_(std::get<LoopOp>(graph.node(inputs).op)) {}

  void run() {
    find_moved();
    if (moved_.empty()) return;
    begin();
    move_nodes();
    move_results();
    finish();
    label_readers();
  }

 private:
  bool is_weights(ValueId turn) const { return graph_.node(graph_.value(turn).producer).part == Part::weight_gradient; }
  bool is_moved(const LoopOp::Carry& carry) const {
    return only_adds_up(graph_, from_, carry) && is_weights(carry.leaving);
  }

  /// All that the gradients that go on do not need.
  void find_moved() {
    std::set<NodeId> kept;
    std::vector<ValueId> work;
    for (const LoopOp::Carry& carry : from_.carries)
      if (!is_moved(carry)) work.push_back(carry.leaving);
    for (const LoopOp::Collect& collect : from_.collects)
      if (!is_weights(collect.turn)) work.push_back(collect.turn);
    while (!work.empty()) {
      const ValueId value = work.back();
      work.pop_back();
      const NodeId producer = graph_.value(value).producer;
      if (graph_.node(producer).body != from_.body || !kept.insert(producer).second) continue;
      for_each_source(graph_, graph_.node(producer), [&](ValueId source) { work.push_back(source); });
    }
    for (const NodeId id : graph_.body(from_.body).nodes)
      if (!kept.contains(id)) moved_.insert(id);
  }

  void begin() {
    weights_ = NodeId{static_cast<uint32_t>(graph_.nodes.size())};
    const Node& inputs = graph_.node(inputs_);
    graph_.nodes.push_back(
        {LoopOp{}, {}, {}, inputs.body, Part::weight_gradient, inputs.span, inputs.scope, inputs.region, inputs.call});
    to_.dim = from_.dim;
    to_.reverse = from_.reverse;
    to_.body = GraphBuilder(graph_).new_body(weights_);
  }

  void move_nodes() {
    std::vector<NodeId> kept;
    for (const NodeId id : graph_.body(from_.body).nodes) {
      if (!moved_.contains(id)) {
        kept.push_back(id);
        continue;
      }
      graph_.node(id).body = to_.body;
      for (const ValueId result : graph_.node(id).results) graph_.value(result).body = to_.body;
    }
    for (size_t i = from_.carries.size(); i-- > 0;) {
      const LoopOp::Carry carry = from_.carries[i];
      if (!moved_.contains(graph_.value(carry.leaving).producer) || !only_adds_up_there(carry)) continue;
      graph_.value(carry.entering).body = to_.body;
      graph_.value(carry.entering).producer = weights_;
      to_.carries.insert(to_.carries.begin(), carry);
      from_.carries.erase(from_.carries.begin() + static_cast<std::ptrdiff_t>(i));
    }
    const std::vector<NodeId> all = graph_.body(from_.body).nodes;
    graph_.body(from_.body).nodes = kept;
    for (const NodeId id : all)
      if (moved_.contains(id)) {
        read_here(id);
        graph_.body(to_.body).nodes.push_back(id);
      }
  }

  /// Its addition has moved already.
  bool only_adds_up_there(const LoopOp::Carry& carry) const {
    const Node& last = graph_.node(graph_.value(carry.leaving).producer);
    return is_addition(last.op) && last.inputs[0] == carry.entering;
  }

  void read_here(NodeId id) {
    const std::function<void(NodeId)> walk = [&](NodeId at) {
      std::map<ValueId, ValueId> changed;
      for_each_read(graph_.node(at), [&](ValueId value) {
        if (value && graph_.value(value).body == from_.body) changed[value] = {};
      });
      for (auto& [value, here] : changed) here = resolve(value);
      for_each_read(graph_.node(at), [&](ValueId& value) {
        if (const auto found = changed.find(value); found != changed.end()) value = found->second;
      });
      if (const auto* loop = std::get_if<LoopOp>(&graph_.node(at).op))
        for (const NodeId inner : std::vector<NodeId>(graph_.body(loop->body).nodes)) walk(inner);
    };
    walk(id);
  }

  /// What stands in the second loop for a value of the first.
  ValueId resolve(ValueId value) {
    if (graph_.value(value).body != from_.body) return value;
    if (const auto known = here_.find(value); known != here_.end()) return known->second;
    const ValueId made = made_here(value);
    return here_[value] = made;
  }

  ValueId made_here(ValueId value) {
    const NodeId producer = graph_.value(value).producer;
    if (producer == inputs_) {
      if (value == from_.index)
        return to_.index = GraphBuilder(graph_).argument(graph_.type(value), to_.body, weights_);
      for (const LoopOp::Slice& slice : from_.slices)
        if (slice.turn == value) return slice_of(slice.stacked, value);
      return kept(value);
    }
    const Node& node = graph_.node(producer);
    const std::vector<DimId>& dims = graph_.type(value).dims;
    const bool twice = has(dims, from_.dim);  // a stack would have the dim once more
    if (!is_view(node.op) && !node.inputs.empty() && !twice) return kept(value);
    std::unique_ptr<Clone>& again = again_[producer];
    if (!again) {
      GraphBuilder build(graph_);
      build.body = to_.body;
      build.part = node.part;
      again = std::make_unique<Clone>(build, producer, [this](ValueId operand) { return resolve(operand); });
      graph_.body(to_.body).nodes.push_back(again->node());
    }
    return again->result(value);
  }

  /// Kept by the first loop, turn by turn.
  ValueId kept(ValueId value) {
    ValueType type = graph_.type(value);
    type.dims.insert(type.dims.begin(), from_.dim);
    const std::string& name = graph_.value(value).name;
    graph_.values.push_back(
        {type, inputs_, graph_.node(inputs_).body, {}, name.empty() ? graph_.value(value).label : name});
    const ValueId stacked{static_cast<uint32_t>(graph_.values.size() - 1)};
    from_.collects.push_back({value, stacked});
    return slice_of(stacked, value);
  }

  ValueId slice_of(ValueId stacked, ValueId like) {
    const ValueId turn = GraphBuilder(graph_).argument(graph_.type(like), to_.body, weights_);
    to_.slices.push_back({stacked, turn});
    return turn;
  }

  void move_results() {
    std::vector<LoopOp::Collect> left;
    for (const LoopOp::Collect& collect : from_.collects)
      (moved_.contains(graph_.value(collect.turn).producer) ? to_.collects : left).push_back(collect);
    from_.collects = left;
    for (const LoopOp::Collect& collect : to_.collects) graph_.value(collect.stacked).producer = weights_;
    for (const LoopOp::Carry& carry : to_.carries) graph_.value(carry.result).producer = weights_;
  }

  void finish() {
    graph_.node(inputs_).op = from_;
    connect_loop(graph_.node(inputs_));
    graph_.node(weights_).op = to_;
    connect_loop(graph_.node(weights_));
    std::vector<NodeId>& around = graph_.body(graph_.node(inputs_).body).nodes;
    around.insert(std::ranges::find(around, inputs_) + 1, weights_);
  }

  /// What is made of W is W; of loops, a part.
  void label_readers() {
    std::set<NodeId> weights{weights_};
    for (const NodeId id : graph_.body(graph_.node(inputs_).body).nodes) {
      Node& node = graph_.node(id);
      const bool reads = std::ranges::any_of(
          node.inputs, [&](ValueId value) { return weights.contains(graph_.value(value).producer); });
      if (!reads || node.part == Part::update || std::holds_alternative<LoopOp>(node.op)) continue;
      node.part = Part::weight_gradient;
      weights.insert(id);
    }
  }

  Graph& graph_;
  const NodeId inputs_;
  NodeId weights_;
  LoopOp from_, to_;
  std::set<NodeId> moved_;
  std::map<ValueId, ValueId> here_;
  std::map<NodeId, std::unique_ptr<Clone>> again_;
};

/// What of it only weights' gradients need would wait for W in I.
bool reads_weights(const Graph& graph, const Node& node) {
  bool reads = false;
  for_each_source(graph, node, [&](ValueId value) {
    reads = reads || graph.node(graph.value(value).producer).part == Part::weight_gradient;
  });
  return reads;
}

}  // namespace

void separate_weight_gradients(Graph& graph, const std::vector<DimId>& dims, std::span<const ValueId> also_needed) {
  const auto is_apart = [&](NodeId id) {
    return is_backward_loop(graph.node(id)) && has(dims, std::get<LoopOp>(graph.node(id).op).dim);
  };
  std::vector<std::vector<NodeId>> around;  // the nodes of the bodies with such loops
  for (const Body& body : graph.bodies)
    if (std::ranges::any_of(body.nodes, is_apart)) around.push_back(body.nodes);
  for (const std::vector<NodeId>& nodes : around)
    for (const NodeId id : nodes)  // those in front leave more to W
      if (is_apart(id) || (is_backward_loop(graph.node(id)) && reads_weights(graph, graph.node(id))))
        WeightLoop(graph, id).run();
  remove_dead(graph, also_needed);
}

}  // namespace mesh
