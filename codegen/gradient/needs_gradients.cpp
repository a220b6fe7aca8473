#include "codegen/gradient/needs_gradients.h"

#include <algorithm>

#include "codegen/graph/op.h"

namespace mesh {
namespace {

bool is_float(Type type) { return type == Type::f32 || type == Type::f64 || type == Type::bf16 || type == Type::f16; }

}  // namespace

NeedsGradients::NeedsGradients(const Graph& graph, const std::vector<StoredId>& parameters) : graph_(graph) {
  needs_.resize(graph.values.size());
  for (StoredId id : parameters) needs_[graph.stored[id.index].value.index] = true;
  spread(graph.root());
}

void NeedsGradients::spread(BodyId body) {
  for (NodeId id : graph_.body(body).nodes) {
    const Node& node = graph_.node(id);
    if (const LoopOp* loop = std::get_if<LoopOp>(&node.op)) {
      spread_loop(*loop);
    } else if (definition(node.op).gradient &&
               std::ranges::any_of(node.inputs, [this](ValueId input) { return (*this)(input); })) {
      for (ValueId result : node.results) needs_[result.index] = is_float(graph_.type(result).element);
    }
  }
}

void NeedsGradients::spread_loop(const LoopOp& loop) {
  const NeedsGradients& needs = *this;
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

}  // namespace mesh
