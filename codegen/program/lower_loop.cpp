// lower_loop.cpp: a repeat becomes a `for`. A carry lives in one buffer that every turn reads and leaves renewed;
// slices are stacked buffers indexed by the turn; what is collected is written into its slot of the stacked buffer.
#include <algorithm>
#include <set>
#include <utility>

#include "codegen/graph/print_graph.h"
#include "codegen/program/extent.h"
#include "codegen/program/lowering.h"
#include "codegen/program/pipeline_slots.h"

namespace mesh {

/// Of those who have what a divided loop's carry begins with, the stage where it does.
Lowering::Place Lowering::beginning(const LoopOp& op, Place of) const {
  const Where first = stages_.end(op, false);
  std::erase_if(of.at, [&](const Where& one) { return one.axis == first.axis; });
  of.at.insert(std::ranges::upper_bound(of.at, first.axis, {}, &Where::axis), first);
  const StageRange among = stages_.range(op);
  const auto ranks = static_cast<int32_t>(sharded_.layout.pipeline.lists.ranks.size());
  if (stage_) of.stage = {stage_, (op.reverse ? among.last : among.first) / ranks};
  return of;
}

/// Whether nobody beside those writes the value's memory, also where it was made as another value.
bool Lowering::is_made_at(ValueId value, const Place& place) const {
  if (where(value) != place) return false;
  const Node& producer = graph_.node(graph_.value(value).producer);
  const bool made_here = producer.inputs.empty() || memory_[producer.inputs[0].index] != memory_[value.index];
  return made_here || is_made_at(producer.inputs[0], place);
}

/// The buffer of a carry, holding its initial value: of what stages hand on at the stage where it begins. Into others
/// it comes, also where these have the initial value for what they make of it besides. Where it is the buffer of an
/// initial value without a name, that is called as the result. What the micro-batches of a pipeline add up for a
/// replica lies where that keeps it.
Access Lowering::enter(const LoopOp& op, const LoopOp::Carry& carry) {
  const Place all = where(carry.initial);
  at_ = is_handed_on(op, carry) ? beginning(op, all) : all;
  const bool comes_in = at_ != all;
  Access initial = in_memory(carry.initial);
  // A loop within another begins anew in each turn of that: what was made outside is needed again.
  const bool made_beside = graph_.value(carry.initial).body == graph_.value(carry.result).body;
  const std::optional<Access>& kept = target_[carry.result.index];
  const bool there =
      stages_.is_pipeline(op) && kept && std::ranges::equal(dims_of(program_, *kept), local_dims(carry.entering));
  if (!there && !comes_in && made_beside && is_alone(carry.initial) && is_made_at(carry.initial, at_) &&
      dims_of(program_, initial).size() == program_.buffer(initial.buffer).dims.size() &&
      program_.buffer(initial.buffer).dims == local_dims(carry.entering)) {
    if (known_as(graph_, carry.initial).empty()) call_as(carry.result, initial.buffer);
    return initial;
  }
  const Access own = there ? *kept : Access{new_buffer(carry.result, kind_of(carry.result)), {}};
  copy(initial, own);
  return own;
}

/// A stacked operand with the loop's dim leading.
Access Lowering::stacked(const LoopOp& op, ValueId value) {
  Access access = in_memory(value);
  const auto dims = dims_of(program_, access);
  if (dims[0].dim == op.dim) return access;
  std::vector<DimId> order{op.dim};
  for (const LocalDim& local : dims)
    if (local.dim != op.dim) order.push_back(local.dim);
  const Place around = std::exchange(at_, where(value));  // who has it copies it
  access = reordered(access, order);
  at_ = around;
  return access;
}

Part Lowering::part_of(ValueId value) const { return graph_.node(graph_.value(value).producer).part; }

namespace {

/// Whether a value of the pipeline's body is made of what its stages make of their turns.
bool depends_on_turns(const Graph& graph, const Stages& stages, ValueId of) {
  std::set<ValueId> seen;
  std::vector<ValueId> work{of};
  while (!work.empty()) {
    const ValueId value = work.back();
    work.pop_back();
    if (graph.value(value).body != stages.body() || !seen.insert(value).second) continue;
    const Node& producer = graph.node(graph.value(value).producer);
    const auto* loop = std::get_if<LoopOp>(&producer.op);
    if (loop && stages.is_pipeline(*loop)) continue;  // as the turn began
    if (loop && stages.is_divided(*loop)) return true;
    work.insert(work.end(), producer.inputs.begin(), producer.inputs.end());
  }
  return false;
}

}  // namespace

/// The end of a turn: carries get what this turn leaves, of those whose last function is asked for. Values are read
/// before any of them is overwritten.
void Lowering::leave(const LoopOp& op, const std::vector<Access>& carries, const std::function<bool(Part)>& of) {
  std::vector<std::optional<Access>> leaving(op.carries.size());
  for (size_t i = 0; i < op.carries.size(); ++i) {
    if (!of(part_of(op.carries[i].leaving))) continue;
    at_ = where(op.carries[i].leaving);
    Access from = in_memory(op.carries[i].leaving);
    const auto overwritten = [&](const Access& carry) {
      return storage(program_, carry.buffer) == storage(program_, from.buffer);
    };
    if (from != carries[i] && std::any_of(carries.begin(), carries.end(), overwritten)) {
      const Access safe{new_buffer(op.carries[i].leaving, BufferKind::workspace), {}};
      copy(from, safe);
      from = safe;
    }
    leaving[i] = from;
  }
  for (size_t i = 0; i < op.carries.size(); ++i) {
    if (!leaving[i]) continue;
    at_ = where(op.carries[i].leaving);
    // What every stage of a rank computes alike, one of them keeps.
    const bool alike = stage_ && stages_.is_pipeline(op) && at_.at.empty();
    if (alike && !depends_on_turns(graph_, stages_, op.carries[i].leaving)) at_.stage = {stage_, 0};
    copy(*leaving[i], carries[i]);
  }
  at_ = {};
}

/// Whether stages of a pipeline hand it on: not what each adds up for itself.
bool Lowering::is_handed_on(const LoopOp& op, const LoopOp::Carry& carry) const {
  return stages_.is_divided(op) && mesh::is_handed_on(sharded_.placement(carry.result));
}

/// What stages have handed on, or hand on.
void Lowering::pass_on(const LoopOp& op, const std::vector<Access>& carries, bool sends) {
  const StageRange among = stages_.range(op);
  if (among.first == among.last) return;
  at_ = {stages_.comers(op)};
  for (size_t i = 0; i < op.carries.size(); ++i)
    if (is_handed_on(op, op.carries[i])) {
      program_.buffer(storage(program_, carries[i].buffer)).space = Space::arena;
      emit(MessageStep{carries[i], sharded_.layout.pipeline.axis, op.reverse, sends, among});
    }
  at_ = {};
}

/// What comes into a stage is there for its R, too.
void Lowering::keep_inputs(const LoopOp& op, const std::vector<Access>& carries) {
  at_ = {stages_.comers(op)};
  for (size_t i = 0; i < op.carries.size(); ++i) {
    if (!is_handed_on(op, op.carries[i])) continue;
    const Access kept{new_buffer(op.carries[i].entering, BufferKind::activation), {}};
    copy(carries[i], kept);
    came_in_[op.carries[i].initial] = {kept, carries[i], op.dim, at_};
  }
}

/// What was there before the body begins is kept `before` a carry is renewed, all else when it is made.
void Lowering::keep(const std::vector<Slot>& slots, bool before, const std::function<bool(Part)>& of) {
  for (const Slot& slot : slots) {
    if (slot.argument != before || !of(slot.argument ? Part::forward : part_of(slot.turn))) continue;
    at_ = where(slot.turn);
    if (before) store(slot.turn, slot.access);
    else copy(in_memory(slot.turn), slot.access);
  }
  at_ = {};
}

/// Has the value written into its slot where it is made, if the producer has a say in that.
void Lowering::aim(ValueId value, const Access& slot) {
  if (target_[value.index]) return;
  target_[value.index] = slot;
  // An all-reduce works in place: its operand is made in the slot.
  const Node& producer = graph_.node(graph_.value(value).producer);
  const auto* reshard = std::get_if<ReshardOp>(&producer.op);
  if (reshard && sharded_.steps[reshard->step].kind == CollectiveKind::all_reduce &&
      readers_[producer.inputs[0].index] == 1 && graph_.value(producer.inputs[0]).body == graph_.value(value).body)
    aim(producer.inputs[0], slot);
}

void Lowering::lower_loop(const Node& node) {
  const LoopOp& op = std::get<LoopOp>(node.op);
  const LoopId loop{program_.loops++};
  std::vector<Access> carries;
  for (const LoopOp::Carry& carry : op.carries) {
    const auto came_in = stages_.is_again(op) ? came_in_.find(carry.initial) : came_in_.end();
    carries.push_back(came_in == came_in_.end() ? enter(op, carry) : came_in->second.kept);
    memory_[carry.entering.index] = carries.back();
  }
  const bool passes = stages_.is_divided(op) && !stages_.is_again(op);
  if (passes) pass_on(op, carries, false);
  if (stages_.is_forward(op) && stages_.recomputes()) keep_inputs(op, carries);
  at_ = {};
  for (const LoopOp::Slice& slice : op.slices) {
    Access access = stacked(op, slice.stacked);
    access.turns.push_back(loop);
    memory_[slice.turn.index] = access;
  }
  if (op.index) turn_[op.index] = loop;
  std::vector<Slot> slots;
  for (const LoopOp::Collect& collect : op.collects) {
    Slot slot{collect.turn, allocate(collect.stacked), memory_[collect.turn.index] || turn_.contains(collect.turn)};
    if (until(graph_, op)) emit(FillStep{slot.access, 0});
    slot.access.turns.push_back(loop);
    if (!slot.argument) aim(collect.turn, slot.access);
    slots.push_back(std::move(slot));
  }

  Steps body;
  Steps* around = std::exchange(steps_, &body);
  if (stages_.is_pipeline(op)) {
    if (sharded_.layout.pipeline.has_chunks()) stage_ = {program_.loops++};
    lower_actions(op, carries, slots);
  } else {
    const auto all = [](Part) { return true; };
    keep(slots, true, all);
    lower_body(op.body);
    node_ = &node;
    keep(slots, false, all);
    leave(op, carries, all);
  }
  node_ = &node;
  if (const auto done = std::exchange(done_, {})) emit(UntilStep{*done});
  steps_ = around;

  for (size_t i = 0; i < op.carries.size(); ++i) memory_[op.carries[i].result.index] = carries[i];
  ForStep made{loop, op.dim, graph_.dim(op.dim).size, op.reverse, std::move(body)};
  if (const auto own = sharded_.divided.find(op.body); own != sharded_.divided.end()) made.own = own->second;
  if (stages_.is_divided(op)) made.stage = stage_;
  if (stages_.is_pipeline(op)) made.order = order_of(program_, made, std::exchange(stage_, {}));
  at_ = {};
  if (stages_.is_divided(op)) at_.at = stages_.comers(op);
  emit(std::move(made));
  if (passes) pass_on(op, carries, true);
}

}  // namespace mesh
