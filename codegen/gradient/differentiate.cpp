#include "codegen/gradient/differentiate.h"

#include <algorithm>
#include <set>

#include "codegen/gradient/gradient_parts.h"
#include "codegen/gradient/needs_gradients.h"
#include "codegen/gradient/stash.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/value_names.h"

namespace mesh {
namespace {

class Differentiator {
 public:
  Differentiator(Graph& graph, const std::vector<StoredId>& parameters, const ComputedAgain& again)
      : graph_(graph), stash_(graph, again), needs_(graph, parameters) {}

  std::map<StoredId, ValueId> run(ValueId loss, const std::vector<StoredId>& parameters) {
    const uint32_t first = static_cast<uint32_t>(graph_.nodes.size());
    GraphBuilder build(graph_);
    build.part = Part::input_gradient;
    const Node& end = graph_.node(graph_.value(loss).producer);
    build.span = end.span;
    build.region = end.region;
    std::map<ValueId, ValueId> d;
    d[loss] = build.literal(1, graph_.type(loss).element);
    const std::vector<NodeId> forward = graph_.body(graph_.root()).nodes;
    backward(build, forward, d);
    std::map<StoredId, ValueId> gradients;
    for (StoredId id : parameters) {
      const Stored stored = graph_.stored[id.index];
      build.span = stored.span;
      ValueId& gradient = d[stored.value];
      if (!gradient) gradient = zeros(build, gradient_type(stored.value));
      build.region = graph_.node(graph_.value(gradient).producer).region;
      gradients[id] = gradient;
      // In the parameter's order of dims, as whoever fetches it expects: the first operand with all dims decides.
      if (graph_.type(gradient).dims != stored.type.dims) {
        const ValueId ones = build.broadcast(build.literal(1, computed_in(stored.type.element)), stored.type.dims);
        gradient = build.multiply(ones, gradient);
      }
      graph_.value(gradient).name = "d_" + stored.path;
      // What a loop over groups of turns leaves is the gradient, too, before it is seen as one of all turns.
      const Node& last = graph_.node(graph_.value(gradient).producer);
      if (is_view(last.op) && is_made_by_loop(last.inputs[0])) graph_.value(last.inputs[0]).name = "d_" + stored.path;
      graph_.names[gradient_name(stored.path)] = gradient;
    }
    stash_.bring_forward_values();
    mark_gradient_parts(graph_, first);
    return gradients;
  }

 private:
  bool is_made_by_loop(ValueId value) const {
    return std::holds_alternative<LoopOp>(graph_.node(graph_.value(value).producer).op);
  }

  /// Of the gradient of a value: of narrow ones it is not narrow.
  ValueType gradient_type(ValueId of) const {
    ValueType type = graph_.type(of);
    type.element = computed_in(type.element);
    return type;
  }

  static ValueId zeros(GraphBuilder& build, const ValueType& type) {
    return build.broadcast(build.literal(0, type.element), type.dims);
  }

  /// Names a gradient after its value, or what that is a view or a cast of, or what made it.
  void label(ValueId gradient, ValueId of) {
    std::string& text = graph_.value(gradient).label;
    const auto passes_on = [&](ValueId value) {
      const Op& op = graph_.node(graph_.value(value).producer).op;
      const Type element = graph_.type(value).element;
      return is_view(op) || (is_elementwise(op) && computed_in(element) != element);
    };
    while (graph_.value(of).name.empty() && passes_on(of)) of = graph_.node(graph_.value(of).producer).inputs[0];
    const Value& value = graph_.value(of);
    if (text.empty()) text = "d_" + (value.name.empty() ? simple_name(graph_.node(value.producer).op) : value.name);
  }

  void contribute(GraphBuilder& build, std::map<ValueId, ValueId>& d, ValueId to, ValueId what) {
    ValueId& sum = d[to];
    sum = sum ? build.add(sum, what) : what;
  }

  /// Goes through `forward` from its end; `d` holds the gradients of values known so far and receives those of its
  /// operands.
  void backward(GraphBuilder& build, const std::vector<NodeId>& forward, std::map<ValueId, ValueId>& d) {
    for (auto at = forward.rbegin(); at != forward.rend(); ++at) {
      const Node node = graph_.node(*at);
      build.span = node.span;
      build.scope = node.scope;
      build.call = node.call;
      if (node.region) build.region = node.region;
      std::vector<ValueId> d_results;
      bool any = false;
      for (ValueId result : node.results) {
        const auto found = d.find(result);
        d_results.push_back(found == d.end() ? ValueId{} : found->second);
        if (d_results.back()) label(d_results.back(), result);
        any |= bool(d_results.back());
      }
      if (!any) continue;
      if (const LoopOp* loop = std::get_if<LoopOp>(&node.op)) {
        loop_backward(build, *at, *loop, d);
        continue;
      }
      const OpDefinition& op = definition(node.op);
      if (!op.gradient || !d_results[0]) continue;
      std::vector<bool> wanted;
      for (ValueId input : node.inputs) wanted.push_back(needs_(input));
      if (std::none_of(wanted.begin(), wanted.end(), [](bool w) { return w; })) continue;
      const std::vector<ValueId> d_inputs = op.gradient(build, *at, d_results, wanted);
      for (size_t i = 0; i < d_inputs.size(); ++i)
        if (wanted[i] && d_inputs[i]) contribute(build, d, node.inputs[i], d_inputs[i]);
    }
  }

  /// Values of enclosing bodies that the loop's body reads directly and that need a gradient.
  std::vector<ValueId> captured(const LoopOp& loop) {
    std::set<ValueId> inside;
    std::vector<ValueId> outside;
    const auto walk = [&](const auto& self, const LoopOp& l) -> void {
      for (const auto& c : l.carries) inside.insert(c.entering);
      for (const auto& s : l.slices) inside.insert(s.turn);
      if (l.index) inside.insert(l.index);
      const auto use = [&](ValueId v) {
        if (v && !inside.count(v) && needs_(v) && std::find(outside.begin(), outside.end(), v) == outside.end())
          outside.push_back(v);
      };
      for (NodeId id : graph_.body(l.body).nodes) {
        const Node& node = graph_.node(id);
        for (ValueId input : node.inputs) use(input);
        if (const LoopOp* inner = std::get_if<LoopOp>(&node.op)) self(self, *inner);
        inside.insert(node.results.begin(), node.results.end());
      }
      for (const auto& c : l.carries) use(c.leaving);
      for (const auto& c : l.collects) use(c.turn);
    };
    walk(walk, loop);
    return outside;
  }

  /// What that which has a gradient behind the loop is made of, in turns before the last one too.
  std::set<ValueId> read_for_gradients(const LoopOp& loop, const std::map<ValueId, ValueId>& d) const {
    std::vector<ValueId> work;
    for (const auto& carry : loop.carries)
      if (gradient_in(d, carry.result)) work.push_back(carry.leaving);
    for (const auto& collect : loop.collects)
      if (gradient_in(d, collect.stacked)) work.push_back(collect.turn);
    std::set<ValueId> read;
    while (!work.empty()) {
      const ValueId value = work.back();
      work.pop_back();
      if (!read.insert(value).second) continue;
      const std::vector<ValueId> sources = sources_of(graph_, value);
      work.insert(work.end(), sources.begin(), sources.end());
    }
    return read;
  }
  /// The gradient of a value, where it has one.
  static ValueId gradient_in(const std::map<ValueId, ValueId>& d, ValueId of) {
    const auto found = d.find(of);
    return found == d.end() ? ValueId{} : found->second;
  }

  /// The backward pass of a loop while it is made. Its carries are the gradients of those of `carried`, then the sums
  /// of `shared`.
  struct BackwardLoop {
    const LoopOp& forward;
    std::set<ValueId> read;                   // what that which has a gradient behind the loop is made of
    std::vector<LoopOp::Carry> carried = {};  // of the forward loop
    std::vector<ValueId> shared = {};         // values of bodies around it: each turn adds to their gradients
    std::map<ValueId, ValueId> stacks = {};   // gradients of what was collected, the loop's dim first
    NodeId node = {};
    LoopOp op = {};
  };

  void loop_backward(GraphBuilder& build, NodeId forward_id, const LoopOp& forward, std::map<ValueId, ValueId>& d) {
    BackwardLoop back{forward, read_for_gradients(forward, d)};
    begin_carries(build, back, d);  // before the loop's node, so that what they begin with stands before it
    append_loop(build, back);
    stash_.pair(back.op.body, forward_id);

    GraphBuilder inside = build;
    inside.body = back.op.body;
    std::map<ValueId, ValueId> d_inside = enter_turn(inside, back);
    const std::vector<NodeId> nodes = graph_.body(forward.body).nodes;
    backward(inside, nodes, d_inside);
    leave_turn(inside, back, d_inside);

    stack_gradients(build, inside, back, d_inside, d);
    for (auto& carry : back.op.carries) carry.result = result_of(back, build.body, graph_.type(carry.initial));
    graph_.node(back.node).op = back.op;
    connect_loop(graph_.node(back.node));
    hand_on(build, back, d);
  }

  void begin_carries(GraphBuilder& build, BackwardLoop& back, const std::map<ValueId, ValueId>& d) {
    for (const auto& carry : back.forward.carries) {
      const ValueId gradient = gradient_in(d, carry.result);
      if (!needs_(carry.entering) || (!gradient && !back.read.contains(carry.entering))) continue;
      back.carried.push_back(carry);
      back.op.carries.push_back({gradient ? gradient : zeros(build, gradient_type(carry.result)), {}, {}, {}});
    }
    back.shared = captured(back.forward);
    std::erase_if(back.shared, [&](ValueId value) { return !back.read.contains(value); });
    for (const ValueId value : back.shared) back.op.carries.push_back({zeros(build, gradient_type(value)), {}, {}, {}});
    for (const auto& collect : back.forward.collects)
      if (const ValueId gradient = gradient_in(d, collect.stacked); gradient && needs_(collect.turn))
        back.stacks[collect.stacked] = build.in_order(gradient, graph_.type(collect.stacked).dims);
  }

  void append_loop(const GraphBuilder& build, BackwardLoop& back) {
    back.node = NodeId{static_cast<uint32_t>(graph_.nodes.size())};
    graph_.nodes.push_back(
        {LoopOp{}, {}, {}, build.body, Part::input_gradient, build.span, build.scope, build.region, build.call});
    graph_.body(build.body).nodes.push_back(back.node);
    back.op.dim = back.forward.dim;
    back.op.reverse = !back.forward.reverse;
    back.op.body = GraphBuilder(graph_).new_body(back.node);
  }

  /// The gradients that a turn begins with: of what the forward turn leaves and what is collected of it.
  std::map<ValueId, ValueId> enter_turn(GraphBuilder& inside, BackwardLoop& back) {
    std::map<ValueId, ValueId> d;
    const auto argument = [&](const ValueType& type) { return inside.argument(type, back.op.body, back.node); };
    for (auto& carry : back.op.carries) carry.entering = argument(graph_.type(carry.initial));
    for (size_t i = 0; i < back.carried.size(); ++i)
      contribute(inside, d, back.carried[i].leaving, back.op.carries[i].entering);
    for (const auto& collect : back.forward.collects) {
      if (!back.stacks.contains(collect.stacked)) continue;
      const ValueId turn = argument(gradient_type(collect.turn));
      back.op.slices.push_back({back.stacks[collect.stacked], turn});
      contribute(inside, d, collect.turn, turn);
    }
    return d;
  }

  void leave_turn(GraphBuilder& inside, BackwardLoop& back, const std::map<ValueId, ValueId>& d) {
    for (size_t i = 0; i < back.carried.size(); ++i)
      back.op.carries[i].leaving = gradient_or_zeros(inside, d, back.carried[i].entering);
    for (size_t i = 0; i < back.shared.size(); ++i) {
      auto& sum = back.op.carries[back.carried.size() + i];
      const ValueId gradient = gradient_in(d, back.shared[i]);
      sum.leaving = gradient ? inside.add(sum.entering, gradient) : sum.entering;
    }
  }

  /// Gradients of what the loop took turn by turn, as parameters of layers: a turn each, in the stacked value's own
  /// order of dims.
  void stack_gradients(GraphBuilder& build, GraphBuilder& inside, BackwardLoop& back,
                       const std::map<ValueId, ValueId>& d_inside, std::map<ValueId, ValueId>& d) {
    for (const auto& slice : back.forward.slices) {
      if (!needs_(slice.turn) || !back.read.contains(slice.turn)) continue;
      const ValueId turn = gradient_or_zeros(inside, d_inside, slice.turn);
      const ValueId stacked = result_of(back, build.body, gradient_type(slice.stacked));
      back.op.collects.push_back({turn, stacked});
      contribute(build, d, slice.stacked, stacked);
    }
  }

  /// The gradient of a carry's result became the loop's own business; what it started from gets what the first turn
  /// leaves.
  void hand_on(GraphBuilder& build, const BackwardLoop& back, std::map<ValueId, ValueId>& d) {
    for (size_t i = 0; i < back.carried.size(); ++i)
      contribute(build, d, back.carried[i].initial, back.op.carries[i].result);
    for (size_t i = 0; i < back.shared.size(); ++i)
      contribute(build, d, back.shared[i], back.op.carries[back.carried.size() + i].result);
  }

  ValueId result_of(const BackwardLoop& back, BodyId around, const ValueType& type) {
    graph_.values.push_back({type, back.node, around, {}});
    return ValueId{static_cast<uint32_t>(graph_.values.size() - 1)};
  }

  ValueId gradient_or_zeros(GraphBuilder& inside, const std::map<ValueId, ValueId>& d, ValueId of) {
    const ValueId gradient = gradient_in(d, of);
    return gradient ? gradient : zeros(inside, gradient_type(of));
  }

  Graph& graph_;
  Stash stash_;
  const NeedsGradients needs_;
};

}  // namespace

std::map<StoredId, ValueId> differentiate(Graph& graph, ValueId loss, const std::vector<StoredId>& parameters,
                                          const ComputedAgain& again) {
  return Differentiator(graph, parameters, again).run(loss, parameters);
}

}  // namespace mesh
