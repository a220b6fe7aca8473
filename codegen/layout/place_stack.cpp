// place_stack.cpp: what a loop takes and keeps turn by turn. A stack lies as its turns do, the loop's dim whole or,
// where a rule splits it, each turn's slot at one rank.
#include <algorithm>

#include "codegen/layout/placer.h"

namespace mesh {
namespace {

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

void Placer::stack_turns(const LoopOp& op, LoopOp::Collect& collect) {
  collect.turn = collected(op, collect);
  std::vector<DimId> rest(graph_.type(collect.stacked).dims.begin() + 1, graph_.type(collect.stacked).dims.end());
  const Placement stacked =
      stack_of(op.dim, reordered(placement(collect.turn), graph_.type(collect.turn).dims, rest), own_turns(op.body));
  set_placement(collect.stacked, stacked, "the stack of its turns");
  if (partial_because_.count(collect.turn)) partial_because_[collect.stacked] = partial_because_[collect.turn];
}

}  // namespace mesh
