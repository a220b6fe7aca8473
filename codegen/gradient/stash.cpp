#include "codegen/gradient/stash.h"

#include <algorithm>

#include "codegen/graph/builder.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"

namespace mesh {

namespace {

/// A product or a lookup reads memory.
bool reads_memory(const Op& op) {
  const Effort effort = definition(op).effort(op);
  return has_products(effort) || effort == Effort::lookup;
}

bool is_cheap(const Op& op) { return definition(op).effort(op) <= Effort::cheap; }

}  // namespace

void Stash::bring_forward_values() {
  for (const auto& [backward, forward] : forward_of_) mark_products_operands(backward);
  walk(graph_.root());
}

void Stash::mark_products_operands(BodyId backward) {
  for (NodeId id : graph_.body(backward).nodes) {
    if (!reads_memory(graph_.node(id).op)) continue;
    for (ValueId input : graph_.node(id).inputs) {
      materialised_.insert(input);
      for (const Node* from = &graph_.node(graph_.value(input).producer); is_view(from->op);) {
        materialised_.insert(from->inputs[0]);
        from = &graph_.node(graph_.value(from->inputs[0]).producer);
      }
    }
  }
}

BodyId Stash::parent(BodyId body) const { return graph_.node(graph_.body(body).owner).body; }

/// Rebuilds a body: before each node come the repeated nodes that it is the first to read.
void Stash::walk(BodyId body) {
  const std::vector<NodeId> nodes = graph_.body(body).nodes;
  rebuilt_[body].clear();
  for (NodeId id : nodes) {
    if (std::holds_alternative<LoopOp>(graph_.node(id).op)) {
      const BodyId inner = std::get<LoopOp>(graph_.node(id).op).body;
      if (forward_of_.count(inner)) {
        walk(inner);
        const auto at = [&](ValueId v) { return resolve(v, body); };
        for (size_t i = 0; i < loop(inner).carries.size(); ++i) {
          const ValueId initial = at(loop(inner).carries[i].initial),
                        leaving = resolve(loop(inner).carries[i].leaving, inner);
          loop(inner).carries[i].initial = initial;
          loop(inner).carries[i].leaving = leaving;
        }
        for (size_t i = 0; i < loop(inner).slices.size(); ++i) {
          const ValueId stacked = at(loop(inner).slices[i].stacked);
          loop(inner).slices[i].stacked = stacked;
        }
        for (size_t i = 0; i < loop(inner).collects.size(); ++i) {
          const ValueId turn = resolve(loop(inner).collects[i].turn, inner);
          loop(inner).collects[i].turn = turn;
        }
        graph_.body(inner).nodes = rebuilt_[inner];
      }
      connect_loop(graph_.node(id));
    } else {
      for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
        const ValueId input = resolve(graph_.node(id).inputs[i], body);
        graph_.node(id).inputs[i] = input;
      }
    }
    rebuilt_[body].push_back(id);
  }
  if (body == graph_.root()) {
    graph_.body(body).nodes = rebuilt_[body];
    // Stashes were added to forward loops on the way.
    for (NodeId id : nodes)
      if (std::holds_alternative<LoopOp>(graph_.node(id).op)) connect_loop(graph_.node(id));
    for (const auto& [backward, forward] : forward_of_) connect_loop(graph_.node(forward));
  }
}

ValueId Stash::resolve(ValueId value, BodyId in) {
  // Defined here or in an enclosing body: visible as it is.
  for (BodyId at = in;; at = parent(at)) {
    if (graph_.value(value).body == at) return value;
    if (at == graph_.root()) break;
  }
  const auto known = resolved_.find({value, in});
  if (known != resolved_.end()) return known->second;
  const auto forward = forward_of_.find(in);
  if (forward == forward_of_.end()) internal_error("a gradient reads a value of a loop that is not its own");
  const LoopOp of = std::get<LoopOp>(graph_.node(forward->second).op);
  ValueId result;
  if (graph_.value(value).body != of.body) {
    result = resolve(value, parent(in));
  } else if (graph_.value(value).producer == forward->second) {
    if (value == of.index) {
      if (!loop(in).index) {
        const ValueId index = GraphBuilder(graph_).argument(graph_.type(value), in, graph_.body(in).owner);
        loop(in).index = index;
      }
      result = loop(in).index;
    }
    for (const auto& s : of.slices)
      if (s.turn == value) result = slice(resolve(s.stacked, parent(in)), graph_.type(value), in);
    if (!result) result = stash(value, in);
  } else {
    const NodeId producer = graph_.value(value).producer;
    const Op& op = graph_.node(producer).op;
    const bool cheap = is_cheap(op) && !materialised_.count(value) && shifts_in(value) < 2;
    const std::vector<DimId>& dims = graph_.type(value).dims;
    const bool twice = std::ranges::find(dims, of.dim) != dims.end();  // a stash would have the loop's dim once more
    const bool again = again_.loops.contains(of.dim) || named_.contains(producer) || is_view(op) || cheap || twice;
    result = again ? repeat_node(value, in) : stash(value, in);
  }
  resolved_[{value, in}] = result;
  return result;
}

/// How many neighbours a formula takes together, each of which would be stashed by itself.
int Stash::shifts_in(ValueId value) const {
  const Node& node = graph_.node(graph_.value(value).producer);
  if (node.body == graph_.value(value).body && reads_beside(graph_, node)) return 1;
  if (node.body != graph_.value(value).body || !is_cheap(node.op)) return 0;
  int sum = 0;
  for (ValueId input : node.inputs)
    if (graph_.value(input).body == graph_.value(value).body) sum += shifts_in(input);
  return sum;
}

ValueId Stash::repeat_node(ValueId value, BodyId in) {
  const NodeId producer = graph_.value(value).producer;
  std::unique_ptr<Clone>& again = repeated_[{producer, in}];
  if (!again) {
    GraphBuilder build(graph_);
    build.body = in;
    build.part = Part::recompute;
    again = std::make_unique<Clone>(build, producer, [this, in](ValueId operand) { return resolve(operand, in); });
    rebuilt_[in].push_back(again->node());
  }
  return again->result(value);
}

ValueId Stash::stash(ValueId value, BodyId in) {
  const NodeId forward = forward_of_.at(in);
  ValueId& stacked = collected_[value];
  if (!stacked) {
    LoopOp& from = std::get<LoopOp>(graph_.node(forward).op);
    ValueType type = graph_.type(value);
    type.dims.insert(type.dims.begin(), from.dim);
    const std::string& name = graph_.value(value).name;
    graph_.values.push_back(
        {type, forward, graph_.node(forward).body, name.empty() || name.ends_with(".stash") ? name : name + ".stash"});
    stacked = ValueId{static_cast<uint32_t>(graph_.values.size() - 1)};
    from.collects.push_back({value, stacked});
  }
  const ValueId turn = slice(resolve(stacked, parent(in)), graph_.type(value), in);
  graph_.value(turn).label = graph_.value(value).label;
  return turn;
}

ValueId Stash::slice(ValueId stacked, ValueType turn, BodyId in) {
  for (const auto& s : loop(in).slices)
    if (s.stacked == stacked) return s.turn;
  const ValueId argument = GraphBuilder(graph_).argument(std::move(turn), in, graph_.body(in).owner);
  loop(in).slices.push_back({stacked, argument});
  return argument;
}

}  // namespace mesh
