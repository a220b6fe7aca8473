#include "codegen/gradient/region_flow.h"

#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"

namespace mesh {

void Flow::visit(BodyId body) {
  for (const NodeId id : graph_.body(body).nodes) {
    nodes_.push_back(id);
    const Node& node = graph_.node(id);
    const auto* loop = std::get_if<LoopOp>(&node.op);
    if (!loop) {
      if (is_given(graph_, node) || (!node.region && reads(node).empty())) free_.insert(id);
      continue;
    }
    for (const LoopOp::Collect& one : loop->collects) collected_[one.stacked] = one.turn;
    visit(loop->body);
  }
}

std::optional<Origin> Flow::origin(ValueId value) const {
  const Node& producer = graph_.node(graph_.value(value).producer);
  const auto* loop = std::get_if<LoopOp>(&producer.op);
  if (!loop || graph_.value(value).body != loop->body) {
    if (free_.contains(graph_.value(value).producer)) return {};
    return Origin{value, producer.region, producer.part};
  }
  for (const LoopOp::Slice& slice : loop->slices) {
    if (slice.turn != value) continue;
    const std::optional<Origin> stack = origin(slice.stacked);
    const auto turn = stack ? collected_.find(stack->value) : collected_.end();
    return turn == collected_.end() ? stack : origin(turn->second);
  }
  for (const LoopOp::Carry& carry : loop->carries)
    if (carry.entering == value && !only_adds_up(graph_, *loop, carry)) return Origin{value, {}, producer.part};
  return {};
}

std::vector<Origin> Flow::reads(const Node& node) const {
  std::set<ValueId> values(node.inputs.begin(), node.inputs.end());
  if (const auto* loop = std::get_if<LoopOp>(&node.op)) capture(*loop, loop->body, values);
  std::vector<Origin> all;
  for (const ValueId value : values)
    if (const std::optional<Origin> from = origin(value)) all.push_back(*from);
  return all;
}

/// What the loop reads that is made outside of `body`.
void Flow::capture(const LoopOp& loop, BodyId body, std::set<ValueId>& values) const {
  const auto use = [&](ValueId value) {
    if (!is_within(graph_.value(value).body, body)) values.insert(value);
  };
  for (const NodeId id : graph_.body(loop.body).nodes) {
    const Node& node = graph_.node(id);
    for (const ValueId input : node.inputs) use(input);
    if (const auto* inner = std::get_if<LoopOp>(&node.op)) capture(*inner, body, values);
  }
  for (const LoopOp::Carry& carry : loop.carries) use(carry.leaving);
  for (const LoopOp::Collect& collect : loop.collects) use(collect.turn);
}

bool Flow::is_within(BodyId body, BodyId around) const {
  for (; body != around; body = graph_.node(graph_.body(body).owner).body)
    if (body == graph_.root()) return false;
  return true;
}

Crossing crossing(const Node& node, const Origin& from) {
  const bool own = from.region && from.region == node.region;
  // A backward loop is I, and has the W of its turns in it.
  const bool loop = std::holds_alternative<LoopOp>(node.op) && from.part == Part::weight_gradient;
  const Part reader = loop && node.part == Part::input_gradient ? Part::weight_gradient : node.part;
  if (own && from.part == reader) return {};
  const Crossing::List kept_w = reader == Part::weight_gradient ? &Region::stash_w : nullptr;
  const Crossing::List in = own ? nullptr : &Region::in, out = own ? nullptr : &Region::out;
  switch (from.part) {
    case Part::forward: return {true, in, reader == Part::forward ? nullptr : &Region::stash, kept_w, out};
    case Part::recompute:  // what F takes of other regions, R takes of their R
      if (reader == Part::recompute) return {true, in, nullptr, nullptr, out};
      if (is_gradient(reader)) return {true, in, &Region::recomputed, kept_w, out};
      break;
    case Part::input_gradient:
      if (own && reader == Part::weight_gradient) return {true, nullptr, nullptr, kept_w, nullptr};
      if (is_gradient(reader)) return {true, &Region::d_out, nullptr, kept_w, &Region::d_in};
      break;
    case Part::weight_gradient:
      if (reader == Part::weight_gradient) return {true, nullptr, nullptr, nullptr, &Region::d_parameters};
      break;
    case Part::update: break;
  }
  return {.allowed = false};
}

}  // namespace mesh
