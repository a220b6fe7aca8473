#include "codegen/gradient/differentiate.h"

#include <algorithm>
#include <set>

#include "codegen/gradient/gradient_parts.h"
#include "codegen/gradient/stash.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"

namespace mesh {
namespace {

class Differentiator {
 public:
  Differentiator(Graph& graph, const std::vector<StoredId>& parameters, const ComputedAgain& again)
      : graph_(graph), stash_(graph, again) {
    needs_.resize(graph.values.size());
    for (StoredId id : parameters) needs_[graph.stored[id.index].value.index] = true;
    spread(graph.root());
  }

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
      graph_.names["grad(" + stored.path + ")"] = gradient;
    }
    stash_.bring_forward_values();
    mark_gradient_parts(graph_, first);
    return gradients;
  }

 private:
  /// Which values depend on a parameter, so that a gradient may flow to them.
  bool needs(ValueId id) const { return id.index < needs_.size() && needs_[id.index]; }

  void spread(BodyId body) {
    for (NodeId id : graph_.body(body).nodes) {
      const Node& node = graph_.node(id);
      if (const LoopOp* loop = std::get_if<LoopOp>(&node.op)) {
        spread_loop(*loop);
      } else if (definition(node.op).gradient &&
                 std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return needs(v); })) {
        for (ValueId result : node.results) needs_[result.index] = is_float(graph_.type(result).element);
      }
    }
  }

  void spread_loop(const LoopOp& loop) {
    for (const auto& s : loop.slices) needs_[s.turn.index] = needs(s.stacked);
    for (const auto& c : loop.carries) needs_[c.entering.index] = needs(c.initial);
    // A carry may come to depend on a parameter in one turn and pass that on in the next.
    for (bool changed = true; changed;) {
      changed = false;
      spread(loop.body);
      for (const auto& c : loop.carries)
        if (needs(c.leaving) && !needs(c.entering)) needs_[c.entering.index] = changed = true;
    }
    for (const auto& c : loop.carries) needs_[c.result.index] = needs(c.entering);
    for (const auto& c : loop.collects) needs_[c.stacked.index] = needs(c.turn);
  }

  bool is_made_by_loop(ValueId value) const {
    return std::holds_alternative<LoopOp>(graph_.node(graph_.value(value).producer).op);
  }

  static bool is_float(Type type) {
    return type == Type::f32 || type == Type::f64 || type == Type::bf16 || type == Type::f16;
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
      for (ValueId input : node.inputs) wanted.push_back(needs(input));
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
        if (v && !inside.count(v) && needs(v) && std::find(outside.begin(), outside.end(), v) == outside.end())
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

  void loop_backward(GraphBuilder& build, NodeId forward_id, const LoopOp& forward, std::map<ValueId, ValueId>& d) {
    const Span span = build.span;
    const std::string scope = build.scope, call = build.call;
    LoopOp back;
    back.dim = forward.dim;
    back.reverse = !forward.reverse;
    // Initial values are made before the loop node so that they stand before it.
    std::vector<size_t> active;
    const std::set<ValueId> read = read_for_gradients(forward, d);
    for (size_t i = 0; i < forward.carries.size(); ++i) {
      const auto& c = forward.carries[i];
      const ValueId gradient = gradient_in(d, c.result);
      if (!needs(c.entering) || (!gradient && !read.contains(c.entering))) continue;
      active.push_back(i);
      back.carries.push_back({gradient ? gradient : zeros(build, gradient_type(c.result)), {}, {}, {}});
    }
    std::vector<ValueId> shared = captured(forward);
    std::erase_if(shared, [&](ValueId value) { return !read.contains(value); });
    for (ValueId v : shared) back.carries.push_back({zeros(build, gradient_type(v)), {}, {}, {}});

    std::map<ValueId, ValueId> stacks;  // gradients of what was collected, the loop's dim first
    for (const auto& c : forward.collects)
      if (const ValueId gradient = gradient_in(d, c.stacked); gradient && needs(c.turn))
        stacks[c.stacked] = build.in_order(gradient, graph_.type(c.stacked).dims);

    const NodeId id{static_cast<uint32_t>(graph_.nodes.size())};
    graph_.nodes.push_back({LoopOp{}, {}, {}, build.body, Part::input_gradient, span, scope, build.region, call});
    graph_.body(build.body).nodes.push_back(id);
    back.body = build.new_body(id);
    stash_.pair(back.body, forward_id);

    GraphBuilder inside(graph_);
    inside.body = back.body;
    inside.part = Part::input_gradient;
    inside.span = span;
    inside.scope = scope;
    inside.call = call;
    inside.region = build.region;
    std::map<ValueId, ValueId> d_inside;
    for (size_t i = 0; i < back.carries.size(); ++i)
      back.carries[i].entering = inside.argument(graph_.type(back.carries[i].initial), back.body, id);
    for (size_t i = 0; i < active.size(); ++i)
      contribute(inside, d_inside, forward.carries[active[i]].leaving, back.carries[i].entering);
    for (const auto& c : forward.collects) {
      if (!stacks.contains(c.stacked)) continue;
      const ValueId turn = inside.argument(gradient_type(c.turn), back.body, id);
      back.slices.push_back({stacks[c.stacked], turn});
      contribute(inside, d_inside, c.turn, turn);
    }
    const std::vector<NodeId> nodes = graph_.body(forward.body).nodes;
    backward(inside, nodes, d_inside);

    const auto gradient_of = [&](ValueId v) {
      const auto found = d_inside.find(v);
      return found != d_inside.end() && found->second ? found->second : zeros(inside, gradient_type(v));
    };
    for (size_t i = 0; i < active.size(); ++i)
      back.carries[i].leaving = gradient_of(forward.carries[active[i]].entering);
    for (size_t i = 0; i < shared.size(); ++i) {
      auto& carry = back.carries[active.size() + i];
      const auto found = d_inside.find(shared[i]);
      carry.leaving =
          found != d_inside.end() && found->second ? inside.add(carry.entering, found->second) : carry.entering;
    }
    for (const auto& s : forward.slices) {
      if (!needs(s.turn) || !read.contains(s.turn)) continue;
      const ValueId turn = gradient_of(s.turn);
      // Gradients of stacked parameters: a turn each, in the stacked value's own order of dims.
      graph_.values.push_back({gradient_type(s.stacked), id, build.body, {}});
      const ValueId stacked{static_cast<uint32_t>(graph_.values.size() - 1)};
      back.collects.push_back({turn, stacked});
      contribute(build, d, s.stacked, stacked);
    }
    for (auto& c : back.carries) {
      graph_.values.push_back({graph_.type(c.initial), id, build.body, {}});
      c.result = ValueId{static_cast<uint32_t>(graph_.values.size() - 1)};
    }
    graph_.node(id).op = back;
    connect_loop(graph_.node(id));
    for (size_t i = 0; i < active.size(); ++i) {
      // The gradient of the result became the loop's own business; what it started from gets what the first turn
      // leaves.
      contribute(build, d, forward.carries[active[i]].initial, back.carries[i].result);
    }
    for (size_t i = 0; i < shared.size(); ++i) contribute(build, d, shared[i], back.carries[active.size() + i].result);
  }

  Graph& graph_;
  Stash stash_;
  std::vector<bool> needs_;
};

}  // namespace

std::map<StoredId, ValueId> differentiate(Graph& graph, ValueId loss, const std::vector<StoredId>& parameters,
                                          const ComputedAgain& again) {
  return Differentiator(graph, parameters, again).run(loss, parameters);
}

}  // namespace mesh
