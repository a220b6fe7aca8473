// given_values.cpp: what a model makes of other inputs than the sequence is the same at all positions: the encoder of
// an encoder-decoder. It is computed once, and held in caches; what is as easily computed as read is computed where it
// is needed.
#include <algorithm>

#include "codegen/generation/one_position_maker.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"

namespace mesh {

namespace {

/// Cheap, of the operands' elements.
bool is_light_op(const Node& node) {
  if (std::holds_alternative<LoopOp>(node.op)) return false;
  const Effort effort = definition(node.op).effort(node.op);
  return std::holds_alternative<ReadOp>(node.op) || effort == Effort::view || effort == Effort::cheap;
}

}  // namespace

void OnePositionMaker::find_given() {
  given_.resize(from_.values.size());
  light_.assign(from_.values.size(), true);
  for (const Stored& stored : from_.stored)
    if (stored.kind == StoredKind::input) given_[stored.value.index] = true;
  given_[from_.stored[asked_.input.index].value.index] = false;
  // Carries depend on what comes later in their bodies.
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = 0; i < from_.values.size(); ++i) {
      if (!from_.values[i].producer) continue;
      const std::vector<ValueId> sources = sources_of(from_, {i});
      const auto is_given = [&](ValueId source) { return given_[source.index]; };
      const auto is_light = [&](ValueId source) { return light_[source.index]; };
      const bool given = given_[i] || std::ranges::any_of(sources, is_given);
      const bool easy = is_light_op(from_.node(from_.values[i].producer)) && std::ranges::all_of(sources, is_light);
      const bool light = !given || easy;
      changed = changed || given != given_[i] || light != light_[i];
      given_[i] = given;
      light_[i] = light;
    }
  }
}

bool OnePositionMaker::is_held(ValueId id) const {
  if (!given_[id.index] || light_[id.index] || is_view(from_.node(from_.value(id).producer).op)) return false;
  // What a loop along the sequence makes of them may differ from turn to turn.
  for (BodyId body = from_.value(id).body;;) {
    if (one_turn_bodies_.contains(body)) return false;
    const NodeId owner = from_.body(body).owner;
    if (!owner) return true;
    body = from_.node(owner).body;
  }
}

ValueId OnePositionMaker::held(ValueId id) {
  const BodyId body = bodies_.at(from_.value(id).body);
  const Span span = from_.node(from_.value(id).producer).span;
  return cache(body, id, {{}, from_.type(id), Kept::What::given, id}, span).second;
}

}  // namespace mesh
