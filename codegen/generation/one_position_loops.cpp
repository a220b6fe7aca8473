// one_position_loops.cpp: loops of a model at one position. Along the sequence it is one turn, any other makes all.
#include <algorithm>

#include "codegen/generation/one_position_maker.h"
#include "codegen/graph/rewrite.h"

namespace mesh {

ValueType OnePositionMaker::natural_type(ValueId id) const {
  ValueType type = from_.type(id);
  if (const DimId dim = depends(id) ? row_dim(id) : DimId{}) std::erase(type.dims, dim);
  return type;
}

void OnePositionMaker::loop(NodeId id) {
  const LoopOp& from = std::get<LoopOp>(from_.node(id).op);
  const auto along = [&](ValueId value) { return horizons_[value.index].upto.contains(from.dim); };
  const bool sequence = std::ranges::any_of(
      from_.body(from.body).nodes, [&](NodeId node) { return std::ranges::any_of(from_.node(node).results, along); });
  sequence ? one_turn(id, from) : every_turn(id, from);
}

void OnePositionMaker::one_turn(NodeId id, const LoopOp& from) {
  if (until(from_, from) || from.reverse) throw NotBuilt{id};
  const Node& node = from_.node(id);
  bodies_[from.body] = bodies_.at(node.body);
  one_turn_bodies_.insert(from.body);
  if (from.index) rows_[from.index] = wholes_[from.index] = position();
  for (const LoopOp::Slice& slice : from.slices)
    set(slice.turn, depends(slice.turn) ? row(slice.stacked) : at_dim(slice.stacked, from.dim));
  std::vector<StoredId> kept;
  for (const LoopOp::Carry& carry : from.carries) {
    const ValueId initial = natural(carry.initial);
    const BodyId body = bodies_.at(node.body);
    const Kept what{{}, natural_type(carry.entering), Kept::What::leaving, carry.leaving, id};
    const auto [stored, before] = cache(body, carry.entering, what, node.span);
    kept.push_back(stored);
    GraphBuilder at = build_like(node);
    const ValueId first = at.map(MapFunction::equal, {position(), at.literal(0, Type::i32)});
    const ValueId entering = at.map(MapFunction::where, {first, initial, before});
    to_.value(entering).take_names(from_.value(carry.entering));
    rows_[carry.entering] = wholes_[carry.entering] = entering;
  }
  for (size_t i = 0; i < from.carries.size(); ++i) {
    const ValueId leaving = natural(from.carries[i].leaving);
    caches_.keep(kept[i], leaving);
    set(from.carries[i].result, leaving);
  }
  for (const LoopOp::Collect& collect : from.collects) set(collect.stacked, natural(collect.turn));
}

void OnePositionMaker::every_turn(NodeId id, const LoopOp& from) {
  const Node& node = from_.node(id);
  const BodyId outer = bodies_.at(node.body);
  const NodeId made{static_cast<uint32_t>(to_.nodes.size())};
  to_.nodes.push_back({LoopOp{from.dim, {}, from.reverse, {}, {}, {}, {}},
                       {},
                       {},
                       outer,
                       Part::forward,
                       node.span,
                       node.scope,
                       {},
                       node.call});
  GraphBuilder at = build(outer, node);
  const BodyId body = at.new_body(made);
  std::get<LoopOp>(to_.node(made).op).body = body;
  bodies_[from.body] = body;
  const auto argument = [&](ValueId of) {
    const ValueId value = at.argument_called(from_.value(of), natural_type(of), body, made);
    set(of, value);
    return value;
  };
  std::vector<LoopOp::Carry> carries;
  std::vector<LoopOp::Slice> slices;
  for (const LoopOp::Carry& carry : from.carries) {
    // What enters depends on all that may: a carry that begins free is this position's all the same.
    const ValueId initial = depends(carry.entering) ? at_dim_of(carry.initial, carry.entering) : whole(carry.initial);
    carries.push_back({initial, argument(carry.entering), {}, {}});
  }
  for (const LoopOp::Slice& slice : from.slices) {
    const ValueId stacked = natural(slice.stacked);
    slices.push_back({stacked, argument(slice.turn)});
  }
  ValueId index;
  if (from.index) index = argument(from.index);
  std::vector<std::pair<ValueId, ValueId>> collects;
  for (size_t i = 0; i < carries.size(); ++i)
    carries[i].leaving = depends(from.carries[i].entering)
                             ? at_dim_of(from.carries[i].leaving, from.carries[i].entering)
                             : whole(from.carries[i].leaving);
  for (const LoopOp::Collect& collect : from.collects) collects.emplace_back(natural(collect.turn), collect.stacked);
  if (const ValueId done = until(from_, from)) build(body, node.span).append(UntilOp{}, {natural(done)});
  LoopOp& op = std::get<LoopOp>(to_.node(made).op);
  op.slices.insert(op.slices.begin(), slices.begin(), slices.end());
  op.index = index;
  for (size_t i = 0; i < carries.size(); ++i) {
    const ValueId result = from.carries[i].result;
    carries[i].result = at.argument_called(from_.value(result), to_.type(carries[i].leaving), outer, made);
    set(result, carries[i].result);
  }
  std::get<LoopOp>(to_.node(made).op).carries = carries;
  std::vector<LoopOp::Collect> made_collects;
  for (const auto& [turn, stacked] : collects) {
    ValueType type = to_.type(turn);
    type.dims.insert(type.dims.begin(), from.dim);
    const ValueId value = at.argument_called(from_.value(stacked), type, outer, made);
    set(stacked, value);
    made_collects.push_back({turn, value});
  }
  LoopOp& whole_op = std::get<LoopOp>(to_.node(made).op);
  whole_op.collects.insert(whole_op.collects.begin(), made_collects.begin(), made_collects.end());
  connect_loop(to_.node(made));
  to_.body(outer).nodes.push_back(made);
}

ValueId OnePositionMaker::at_dim_of(ValueId id, ValueId like) {
  const DimId dim = row_dim(like);
  return dim ? at_dim(id, dim) : natural(id);
}

}  // namespace mesh
