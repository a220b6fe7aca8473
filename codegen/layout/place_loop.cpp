// place_loop.cpp: loops. A carry has one placement over all turns; a stack lies as its turns do, the loop's dim whole
// or, where a rule splits it, each turn's slot at one rank; a carry that only adds up (the gradient of a shared
// parameter) stays partial until the loop is over, but for the gradients that micro-batches add up: these lie where the
// rules put them from the first turn on. Of a loop whose turns the ranks have among them every value varies, and a sum
// is partial over them.
#include <algorithm>

#include "codegen/graph/rewrite.h"
#include "codegen/layout/placer.h"

namespace mesh {
namespace {

/// The placement of a value with dims `to` that lies as `placement` says of dims `from`: the same set in another order.
Placement reordered(const Placement& placement, const std::vector<DimId>& from, const std::vector<DimId>& to) {
  Placement result = placement;
  for (size_t i = 0; i < to.size(); ++i)
    result.dims[i] = placement.dims[std::find(from.begin(), from.end(), to[i]) - from.begin()];
  return result;
}

/// Where a turn of what lies so lies: at the rank that has its slot.
Placement turn_of(DimId loop, Placement stacked, bool varies) {
  for (const Where& where : varies ? varying_turns(loop, stacked.dims[0]) : owners_of_turn(loop, stacked.dims[0]))
    stacked.at.push_back(where);
  std::ranges::sort(stacked.at);
  stacked.dims.pop_front();
  return stacked;
}

/// The reverse; of turns that each rank makes alone it keeps its `own`.
Placement stack_of(DimId loop, Placement turn, const DimPlacement* own) {
  DimPlacement split = own ? *own : DimPlacement{};
  for (const Where& where : turn.at)
    if (where.owner.dim == loop) split = {where.owner.axes, where.owner.deal};
  std::erase_if(turn.at, [&](const Where& where) { return where.owner.dim == loop; });
  turn.dims.push_front(split);
  return turn;
}

/// Whether turns that lie so make a stack: each at one place along all axes that have the turns among them, or along
/// none.
bool makes_stack(DimId loop, const Placement& turn) {
  return std::ranges::all_of(turn.at, [&](const Where& where) {
    return where.owner.dim != loop || std::ranges::all_of(where.owner.axes, [&](AxisId axis) {
             const Where* along = turn.where(axis);
             return along && along->owner.dim == loop;
           });
  });
}

}  // namespace

/// How the ranks have the turns of a body among them; null where each makes all.
const DimPlacement* Placer::own_turns(BodyId body) const {
  const auto found = divided_.find(body);
  return found == divided_.end() ? nullptr : &found->second;
}

/// The place of the tensors that a node has: where they all are, if not everywhere. Numbers, of which replicas have one
/// each, are brought there.
std::vector<Where> Placer::place_of_tensors(const Node& node) const {
  const auto is_number = [&](ValueId value) {
    const Dims& dims = graph_.type(value).dims;
    return dims.empty() || (dims.size() == 1 && dims[0] == graph_.replicas.turns);
  };
  const Placement* of_all = nullptr;
  for (const ValueId input : node.inputs) {
    if (is_free(input) || is_number(input)) continue;
    const Placement& lies = placement(home(input));
    if (of_all && of_all->at != lies.at) return {};
    of_all = &lies;
  }
  return of_all ? of_all->at : std::vector<Where>{};
}

/// Where a node must be computed: at its stage of a pipeline, in its rank's own turns; outside of loops where its
/// tensors are, so that a parameter's owner makes alone what is made of it.
std::vector<Where> Placer::must_lie(NodeId id) const {
  const Node& node = graph_.node(id);
  const bool is_around = node.body == graph_.root() || (stages_ && node.body == stages_.around());
  const bool by_tensors = is_around && !std::holds_alternative<LoopOp>(node.op);
  return in_own_turn(by_tensors ? place_of_tensors(node) : stages_.must_lie(id), node.body);
}

/// The same place in the turns that each rank makes of the loops around a body.
std::vector<Where> Placer::in_own_turn(std::vector<Where> at, BodyId body) const {
  for (const Where& where : varying_in(graph_, divided_, body))
    if (std::ranges::count(at, where.axis, &Where::axis) == 0) at.push_back(where);
  std::ranges::sort(at);
  return at;
}

/// From zeros on: of another number each rank would add its own to a sum that stays partial.
void Placer::start_adding_up(const LoopOp& loop) {
  for (const auto& carry : loop.carries)
    if (stages_.is_divided(loop) ? stages_.adds_up(loop, carry)
                                 : literal_number(graph_, carry.initial) == 0 && only_adds_up(graph_, loop, carry))
      adding_up_[carry.entering] = {};
}

/// What the rules say of a carry in a turn; where they leave a dim open, what they say of it behind the loop, by the
/// name that the spec has for it there.
std::vector<std::optional<DimPlacement>> Placer::declared_of(const LoopOp::Carry& carry) const {
  const DeclaredAxes in_turn = bound(carry.entering);
  std::vector<std::optional<DimPlacement>> declared(in_turn.begin(), in_turn.end());
  if (!graph_.names.contains(graph_.value(carry.result).name)) return declared;
  const DeclaredAxes behind = bound(carry.result);
  const auto& dims = graph_.type(carry.result).dims;
  const auto is_taken = [&](AxisId axis) {
    return std::ranges::any_of(declared, [&](const auto& one) { return one && contains(one->axes, axis); });
  };
  for (size_t i = 0; i < declared.size(); ++i) {
    const auto& other =
        behind[static_cast<size_t>(std::ranges::find(dims, graph_.type(carry.entering).dims[i]) - dims.begin())];
    if (!declared[i] && other && std::ranges::none_of(other->axes, is_taken)) declared[i] = other;
  }
  return declared;
}

/// As the rules say; open dims as the carry begins. Over no axis whose ranks have other turns.
Placement Placer::carry_placement(const LoopOp::Carry& carry) {
  const auto declared = declared_of(carry);
  Placement result = Placement::whole(declared.size());
  std::vector<AxisId> used, varied;
  for (const Where& where : varying_in(graph_, divided_, graph_.value(carry.entering).body))
    varied.push_back(where.axis);
  for (size_t i = 0; i < declared.size(); ++i)
    if (declared[i]) {
      result.dims[i] = *declared[i];
      used.insert(used.end(), declared[i]->axes.begin(), declared[i]->axes.end());
    }
  if (is_free(carry.initial)) return without_axes(result, varied);
  const ValueId initial = home(carry.initial);
  const Placement begins = reordered(placement(initial), graph_.type(initial).dims, graph_.type(carry.entering).dims);
  for (size_t i = 0; i < declared.size(); ++i) {
    const auto& axes = begins.dims[i].axes;
    if (!declared[i] && std::none_of(axes.begin(), axes.end(),
                                     [&](AxisId a) { return std::find(used.begin(), used.end(), a) != used.end(); }))
      result.dims[i] = {axes, begins.dims[i].deal};
  }
  return without_axes(result, varied);
}

/// What a turn leaves in its slot of the stack, where a rule splits the loop's dim: at the rank that owns the turn.
/// Nothing where no rule does. What the compiler keeps for itself gives way to what splits its turns.
std::optional<Placement> Placer::ruled_turn(const LoopOp& loop, const LoopOp::Collect& kept) {
  const std::optional<DimPlacement> ruled = declared_.of(kept.stacked)[0];
  if (!ruled || ruled->axes.empty()) return {};
  Placement lies = placement(home(kept.turn));
  const auto claimed = [&](AxisId axis) { return contains(ruled->axes, axis); };
  const std::string& name = graph_.value(kept.stacked).name;
  const bool written = declared_.parameter_of_gradient(kept.stacked) || graph_.names.contains(name);
  for (DimPlacement& dim : lies.dims) {
    const auto first = std::ranges::find_if(dim.axes, claimed);
    if (first != dim.axes.end() && !written) return {};
    remove_axes(dim, {first, dim.axes.end()});
  }
  std::erase_if(lies.partial, [&](const Partial& partial) { return claimed(partial.axis); });
  // The rank that makes a turn by what it reads may be another one than that which keeps it.
  std::erase_if(
      lies.at, [&](const Where& where) { return claimed(where.axis) || (where.owner && where.owner.dim == loop.dim); });
  for (const Where& where : owners_of_turn(loop.dim, *ruled)) lies.at.push_back(where);
  std::ranges::sort(lies.at);
  return lies;
}

/// What a loop keeps of a turn's value. Of a partial one the complete copy, where a reader inside asked for one that is
/// no larger: whoever reads the stack then need not complete it a second time.
ValueId Placer::collected(const LoopOp& loop, const LoopOp::Collect& kept) {
  ValueId turn = kept.turn;
  if (is_free(turn)) return materialise(turn, Placement::whole(graph_.type(turn).dims.size()));
  turn = home(turn);
  const DimPlacement* own = own_turns(loop.body);
  if (!own) {
    if (const auto ruled = ruled_turn(loop, kept)) return bring(turn, *ruled, "the rank that keeps this turn of it");
    if (stages_.is_pipeline(loop)) return turn;  // the stage that makes it keeps it
  } else if (stages_ && loop.body == stages_.around() && std::ranges::any_of(placement(turn).at, &Where::varying)) {
    return turn;  // a replica's, too: of a gradient that goes to its update there
  }
  Placement everywhere = placement(turn);
  hold_everywhere(everywhere);
  // Of a loop that stands at one stage of a pipeline no other stage comes here.
  if (!stages_.is_divided(loop))
    for (const Where& where : stages_.must_lie(graph_.body(loop.body).owner))
      if (!everywhere.where(where.axis)) everywhere.at.push_back(where);
  std::ranges::sort(everywhere.at);
  // What was made outside may be split over the axes that have the turns among them.
  if (own && std::ranges::none_of(everywhere.at, &Where::varying)) everywhere = without_axes(everywhere, own->axes);
  turn = bring(turn, everywhere, "what is kept of it");
  if (const auto decided = decisions_.lies.find(kept.stacked); decided != decisions_.lies.end()) {
    Placement lies = decided->second;
    lies.dims.pop_front();
    for (const Where& where : placement(turn).at) lies = without_axes(lies, {where.axis});
    if (own) lies = without_axes(lies, own->axes);
    lies.at = placement(turn).at;
    const std::vector<DimId>& dims = graph_.type(kept.stacked).dims;
    return bring(turn, reordered(lies, {dims.begin() + 1, dims.end()}, graph_.type(turn).dims), "what is kept of it");
  }
  if (!placement(turn).is_partial()) return turn;
  const auto size = [&](ValueId value) {
    return local_elements(graph_, layout_.mesh, graph_.type(value), placement(value));
  };
  ValueId best = turn;
  for (const ValueId copy : copies_of(turn)) {
    const Placement& lies = placement(copy);
    if (lies.is_partial() || lies.has_margins() || !makes_stack(loop.dim, lies)) continue;
    if (best == turn ? size(copy) <= size(turn) : size(copy) < size(best)) best = copy;
  }
  return best;
}

/// Each turn's slot of a stacked value is at the rank that has it; in a loop whose turns are divided at the one that
/// makes it, or everywhere.
void Placer::take_turns(LoopOp& op) {
  const DimPlacement* own = own_turns(op.body);
  for (auto& slice : op.slices) {
    const ValueId stacked = is_free(slice.stacked) ? slice.stacked : home(slice.stacked);
    Placement lies = is_free(stacked) ? Placement::whole(graph_.type(stacked).dims.size()) : placement(stacked);
    if (own) {
      const DimPlacement before = lies.dims[0];
      const bool meets = std::ranges::any_of(before.axes, [&](AxisId axis) { return contains(own->axes, axis); });
      lies = without_axes(lies, own->axes);
      lies.dims[0] = meets ? *own : before;
    }
    slice.stacked = bring(stacked, lies, "the loop takes it turn by turn");
    std::vector<DimId> rest(graph_.type(slice.stacked).dims.begin() + 1, graph_.type(slice.stacked).dims.end());
    const Placement turn = turn_of(op.dim, lies, own && lies.dims[0] == *own);
    set_placement(slice.turn, reordered(turn, rest, graph_.type(slice.turn).dims), "a turn of its stack");
    if (partial_because_.count(slice.stacked)) partial_because_[slice.turn] = partial_because_[slice.stacked];
  }
}

void Placer::begin_carry(NodeId id, const LoopOp& op, LoopOp::Carry& carry) {
  Placement begins = carry_placement(carry);
  // Stages that compute again begin with what came into them, which lies as it came.
  const auto came = stages_.is_again(op) ? came_in_.find(carry.initial) : came_in_.end();
  if (came != came_in_.end()) begins = came->second.lies;
  const ValueId made = carry.initial;
  const Placement comes = begins;
  // What micro-batches give that does not add up, as an extreme, lies at the stage that makes it.
  const std::vector<Where> at = must_lie(stages_.is_pipeline(op) ? graph_.value(carry.leaving).producer : id);
  for (const Where& where : at) begins = without_axes(begins, {where.axis});
  begins.at = at;
  Placement lies = begins, ends = begins;
  if (stages_.is_divided(op)) {  // it goes from stage to stage
    const BodyId around = graph_.node(id).body;
    begins.at = in_own_turn({stages_.end(op, false)}, around);
    lies.at = in_own_turn(stages_.owners(op), around);
    ends.at = in_own_turn({stages_.end(op, true)}, around);
  }
  const Placement first = reordered(begins, graph_.type(carry.entering).dims, graph_.type(carry.initial).dims);
  carry.initial =
      came != came_in_.end() ? came->second.initial : bring(carry.initial, first, "the loop, whose carry lies so");
  if (stages_.is_forward(op)) came_in_[made] = {comes, carry.initial};
  set_placement(carry.entering, lies, "the loop's carry");
  set_placement(carry.result, reordered(ends, graph_.type(carry.entering).dims, graph_.type(carry.result).dims),
                "the loop's carry");
}

void Placer::end_carry(LoopOp::Carry& carry) {
  const Placement lies = placement(carry.entering);
  const auto as_entering = [&](ValueId value) {
    return reordered(lies, graph_.type(carry.entering).dims, graph_.type(value).dims);
  };
  if (!adding_up_.contains(carry.entering)) {
    carry.leaving = bring(carry.leaving, as_entering(carry.leaving), "the loop, whose carry lies so");
    return;
  }
  // The zeros it starts from are right under any placement, partial ones too.
  Placement begins = as_entering(carry.initial);
  std::erase_if(begins.at, [](const Where& where) { return where.owner; });
  carry.initial = materialise_at(carry.initial, begins);
  set_placement(carry.result, as_entering(carry.result), "adds up turn by turn");
  if (partial_because_.count(carry.entering)) partial_because_[carry.result] = partial_because_[carry.entering];
  adding_up_.erase(carry.entering);
}

void Placer::stack_turns(const LoopOp& op, LoopOp::Collect& collect) {
  collect.turn = collected(op, collect);
  std::vector<DimId> rest(graph_.type(collect.stacked).dims.begin() + 1, graph_.type(collect.stacked).dims.end());
  const Placement stacked =
      stack_of(op.dim, reordered(placement(collect.turn), graph_.type(collect.turn).dims, rest), own_turns(op.body));
  set_placement(collect.stacked, stacked, "the stack of its turns");
  if (partial_because_.count(collect.turn)) partial_because_[collect.stacked] = partial_because_[collect.turn];
}

void Placer::loop(NodeId id) {
  LoopOp op = std::get<LoopOp>(graph_.node(id).op);
  const NodeId last = until(graph_, op) ? graph_.body(op.body).nodes.back() : NodeId{};
  start_adding_up(op);
  for (auto& carry : op.carries)
    if (!adding_up_.contains(carry.entering)) begin_carry(id, op, carry);
  take_turns(op);
  if (op.index) {
    set_placement(op.index, Placement::whole(0), "the turn");
    free_[op.index.index] = true;
  }

  body(op.body);

  consumer_ = id;
  for (auto& carry : op.carries) end_carry(carry);
  for (auto& collect : op.collects) stack_turns(op, collect);
  if (last) {
    consumer_ = last;
    node(last);
  }
  graph_.node(id).op = op;
  connect_loop(graph_.node(id));
  emit(id);
}

}  // namespace mesh
