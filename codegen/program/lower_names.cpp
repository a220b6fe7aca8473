// lower_names.cpp: what lowering calls the buffers of values, for the reader of the emitted program: as in the spec
// where that names the value, else after the named value that it is a part of and what made it ("last_rsqrt").
#include <algorithm>
#include <functional>

#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/program/lowering.h"

namespace mesh {

/// "d_layer.attn.wq" is called "d_wq", "layer.attn.q.stash" is "q_stash", the norm of a gradient "norm_d_wq".
std::string Lowering::short_name(ValueId value) const {
  const std::string& path = known_as(graph_, value);
  if (path.empty()) return name_by_producer(value);
  if (path.ends_with(".stash")) return std::string(last_part(path.substr(0, path.rfind('.')))) + "_stash";
  for (const std::string prefix : {"d_", "squares_", "norm_d_", "norm_"}) {
    if (!path.starts_with(prefix)) continue;
    if (const auto stored = stored_names_.with_path(std::string_view(path).substr(prefix.size())))
      return prefix + stored_names_.of(*stored);
    if (path.find('.') != std::string::npos) return prefix + std::string(last_part(path));
  }
  return std::string(last_part(path));
}

std::string Lowering::name_by_producer(ValueId value) const {
  if (const auto next = updated_.find(value); next != updated_.end()) return "next_" + stored_names_.of(next->second);
  const Node& node = graph_.node(graph_.value(value).producer);
  if (std::holds_alternative<ReshardOp>(node.op)) return short_name(node.inputs[0]);
  if (const auto* loop = std::get_if<LoopOp>(&node.op)) {
    for (const LoopOp::Collect& collect : loop->collects)
      if (collect.stacked == value && graph_.value(collect.turn).producer != graph_.body(loop->body).owner)
        return short_name(collect.turn) + "_stash";
    for (const LoopOp::Carry& carry : loop->carries)
      if (carry.result == value && !graph_.value(carry.entering).name.empty()) return short_name(carry.entering);
    for (const LoopOp::Slice& slice : loop->slices)
      if (slice.turn == value) return short_name(slice.stacked);
    return "carry";
  }
  const std::string made =
      simple_name(node.op, static_cast<size_t>(std::ranges::find(node.results, value) - node.results.begin()));
  const ValueId part_of = serves_[value.index];
  if (!part_of) return made;
  const std::string whole = short_name(part_of);
  return made.starts_with(whole) ? made : whole + "_" + made;  // "attention" of `attn`
}

/// A buffer of what begins without a name, as a sum does from zeros, is for its reader what that becomes.
void Lowering::call_as(ValueId value, BufferId buffer) {
  const std::string& path = known_as(graph_, value);
  if (path.empty()) return;
  Buffer& called = program_.buffer(buffer);
  names_->free(called.name);
  called.name = names_->unique(short_name(value));
  called.path = path;
  called.kind = kind_of(value);
  called.span = graph_.node(graph_.value(value).producer).span;
}

void Lowering::find_updated() {
  for (const NodeId id : graph_.body(graph_.root()).nodes) {
    const Node& node = graph_.node(id);
    const auto* update = std::get_if<UpdateOp>(&node.op);
    if (!update) continue;
    ValueId next = node.inputs[0];
    updated_.try_emplace(next, update->stored);
    while (std::holds_alternative<ReshardOp>(graph_.node(graph_.value(next).producer).op)) {
      next = graph_.node(graph_.value(next).producer).inputs[0];
      updated_.try_emplace(next, update->stored);
    }
  }
}

void Lowering::find_named_readers() {
  // Readers stand after what they read: from the end, each value's nearest named reader is known before its own inputs
  // are looked at.
  constexpr int furthest = 6;
  std::vector<int> distance(graph_.values.size(), furthest + 1);
  const auto is_forward = [&](ValueId value) {
    return graph_.node(graph_.value(value).producer).part == Part::forward;
  };
  const auto offer = [&](ValueId input, ValueId reader) {
    if (is_forward(input) && !is_forward(reader)) return;  // gradients read it too
    const std::string& name = known_as(graph_, reader);
    const bool named = !name.empty() && !name.ends_with(".stash");
    const ValueId serves = named ? reader : serves_[reader.index];
    const int at = named ? 1 : distance[reader.index] + 1;
    if (!serves || at > distance[input.index]) return;
    distance[input.index] = at;
    serves_[input.index] = serves;
  };
  const std::function<void(BodyId)> visit = [&](BodyId body) {
    const std::vector<NodeId>& nodes = graph_.body(body).nodes;
    for (auto id = nodes.rbegin(); id != nodes.rend(); ++id) {
      const Node& node = graph_.node(*id);
      if (const auto* loop = std::get_if<LoopOp>(&node.op)) {
        for (const LoopOp::Carry& carry : loop->carries) {
          offer(carry.leaving, carry.result);
          offer(carry.leaving, carry.entering);
        }
        visit(loop->body);
      } else {
        for (const ValueId input : node.inputs)
          for (const ValueId result : node.results) offer(input, result);
      }
    }
  };
  visit(graph_.root());
}

}  // namespace mesh
