// place_loop.cpp: loops. A carry has one placement over all turns; one that only adds up (the gradient of a shared
// parameter) stays partial until the loop is over, but for the gradients that micro-batches add up: these lie where the
// rules put them from the first turn on. Of a loop whose turns the ranks have among them every value varies, and a sum
// is partial over them.
#include <algorithm>

#include "codegen/graph/rewrite.h"
#include "codegen/layout/placer.h"

namespace mesh {

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
