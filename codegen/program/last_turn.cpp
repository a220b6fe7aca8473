// What all turns of a loop add up is complete in the course of its last turn: what is summed over ranks then is on its
// way while the rest of that turn is computed. Of stacked gradients of micro-batches that are the layers one after the
// other.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "codegen/layout/cost.h"
#include "codegen/layout/traffic.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/overlap.h"
#include "codegen/program/put_off.h"
#include "codegen/program/take_turn.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

using Phase = CollectiveStep::Phase;

/// The step behind which a value is complete, or, slot by slot, the loop each of whose turns completes one.
struct Place {
  size_t loop;  // in the list with the call: the one whose last turn that is
  size_t step;  // of its body
  bool by_slots;
  auto operator<=>(const Place&) const = default;
};

/// What is complete there, of the members of a call.
struct Complete {
  std::vector<size_t> members;
  size_t behind = 0;  // by slots: the step of that loop's body behind which all of them are
};

/// What the members of a call are that `taken` counts, as a call of their own.
Step call_of(const Step& call, const std::vector<size_t>& taken) {
  Step made = call;
  const auto moved = movements(call);
  if (taken.size() == 1) {
    made.what = moved[taken.front()];
    return made;
  }
  CombinedStep several;
  for (const size_t one : taken) several.collectives.push_back(moved[one]);
  made.what = std::move(several);
  return made;
}

std::optional<size_t> last_user(const Steps& steps, size_t end, const UsedMemory& memory) {
  while (end > 0 && !memory.in_common(steps[end - 1])) --end;
  if (end == 0) return {};
  return end - 1;
}

/// Calls of one list of steps.
class LastTurns {
 public:
  LastTurns(Program& program, Steps& steps, bool shared)
      : program_(program),
        steps_(steps),
        places_(program, steps),
        is_followed_(!followers_of(program, steps).empty()),
        shared_(shared) {}

  bool run() {
    const auto may_divide = [&](size_t call) {
      return is_in(steps_[call], Phase::whole) && is_between_hosts(program_, steps_[call]);
    };
    for (size_t call = 0; call < steps_.size(); ++call)
      if (may_divide(call)) complete_early(call);
    bool any = false;
    for (size_t call = steps_.size(); call-- > 0;)  // what is put in stands behind it, or in loops before it
      if (may_divide(call)) any = start_earlier(call) || any;
    return any;
  }

 private:
  bool start_earlier(size_t call) {
    std::map<Place, Complete> places;
    std::vector<size_t> left;
    for (size_t i = 0; i < movements(steps_[call]).size(); ++i)
      if (!note_place(call, i, places)) left.push_back(i);
    if (places.empty()) return false;
    for (auto last = places.rbegin(); last != places.rend(); ++last) divide(call, last->first, last->second);
    if (left.empty()) steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(call));
    else steps_[call] = call_of(steps_[call], left);
    return true;
  }

  /// The loop before a call whose turns add up what a member of it moves, if that may start in its last turn.
  std::optional<size_t> loop_of(size_t call, const Step& alone, const UsedMemory& moved) const {
    const auto& member = std::get<CollectiveStep>(alone.what);
    const bool in_place = member.kind == CollectiveKind::all_reduce;
    const bool scatters = member.kind == CollectiveKind::reduce_scatter && shared_;
    if ((!in_place && !scatters) || member.at.owner) return {};
    std::optional<size_t> at;
    for (const size_t place : places_.in_the_way(sets_of(program_, alone)))  // as it was before calls behind this one
      if (place < call && place >= at.value_or(0) && moved.in_common(steps_[place])) at = place;
    const auto* loop = at ? std::get_if<ForStep>(&steps_[*at].what) : nullptr;
    if (!loop || !is_plain(*loop) || loop->reverse) return {};
    return part_of(steps_[*at]) == Part::forward && is_followed_ ? std::nullopt : at;
  }

  /// Where the last step that adds to what a call moves is a nest, that is made as soon as what it adds is there: the
  /// loss before the gradients.
  void complete_early(size_t call) {
    for (size_t i = 0; i < movements(steps_[call]).size(); ++i) {
      const Step alone = call_of(steps_[call], {i});
      const UsedMemory moved(program_, alone);
      const std::optional<size_t> loop = loop_of(call, alone, moved);
      if (!loop) continue;
      Steps& body = std::get<ForStep>(steps_[*loop].what).body;
      const size_t last = *last_user(body, body.size(), moved);
      if (!std::holds_alternative<Nest>(body[last].what)) continue;
      const std::optional<size_t> before = last_user(body, last, UsedMemory(program_, body[last]));
      const auto at = [&](size_t index) { return body.begin() + static_cast<std::ptrdiff_t>(index); };
      std::rotate(at(before ? *before + 1 : 0), at(last), at(last + 1));
    }
  }

  /// Whether a member of a call may start earlier: then it is among what is complete at its place.
  bool note_place(size_t call, size_t member, std::map<Place, Complete>& places) const {
    const Step alone = call_of(steps_[call], {member});
    const UsedMemory moved(program_, alone);
    const std::optional<size_t> loop = loop_of(call, alone, moved);
    if (!loop) return false;
    const Steps& body = std::get<ForStep>(steps_[*loop].what).body;
    const size_t step = *last_user(body, body.size(), moved);
    const auto* inner = std::get_if<ForStep>(&body[step].what);
    if (inner && is_plain(*inner) && completes_slots(*inner, alone)) {
      Complete& slots = places[{*loop, step, true}];
      slots.members.push_back(member);
      slots.behind = std::max(slots.behind, *last_user(inner->body, inner->body.size(), moved));
      return true;
    }
    const auto behind = body.begin() + static_cast<std::ptrdiff_t>(step) + 1;
    const auto computes = [](const Step& other) { return movements(other).empty(); };
    if (std::none_of(behind, body.end(), computes)) return false;
    places[{*loop, step, false}].members.push_back(member);
    return true;
  }

  /// Whether each turn of the loop uses a slot of its own of what is moved, which leads there and is moved as it is.
  bool completes_slots(const ForStep& loop, const Step& alone) const {
    const auto& one = std::get<CollectiveStep>(alone.what);
    const LocalDim whole{loop.dim, {}};
    const auto leads = [&](const Access& access) {
      const std::span<const LocalDim> dims = dims_of(program_, access);
      return !dims.empty() && dims.front() == whole;
    };
    if (!leads(one.from) || !leads(one.to) || one.from_dim == 0 || one.to_dim == 0) return false;
    if (program_.sharded.graph.dim(loop.dim).size != loop.turns) return false;
    Step turn = alone;
    take_turn(program_, turn, loop.dim, loop.loop);
    return std::ranges::all_of(loop.body,
                               [&](const Step& step) { return keeps_to_its_turn(program_, turn, step, loop.loop); });
  }

  /// Starts what is complete of a call at its place, and waits for it where it is needed first.
  void divide(size_t call, const Place& place, const Complete& complete) {
    Step moved = call_of(steps_[call], complete.members);
    size_t need = first_need(program_, steps_, call, moved);
    if (moved.part != Part::forward) {
      ListPlaces places(program_, steps_);
      need = put_off(program_, steps_, places, moved, UsedMemory(program_, moved), need);
    }
    auto& loop = std::get<ForStep>(steps_[place.loop].what);
    auto* inner = place.by_slots ? &std::get<ForStep>(loop.body[place.step].what) : nullptr;
    if (inner) take_turns(moved, *inner);
    Step wait = wait_for(moved, steps_, need);
    if (inner) {
      Step turns{ForStep{inner->loop, inner->dim, inner->turns, inner->reverse, {}}, wait.part, wait.spans, "", {}};
      std::get<ForStep>(turns.what).body.push_back(std::move(wait));
      wait = std::move(turns);
    }
    Steps& list = inner ? inner->body : loop.body;
    const size_t behind = inner ? complete.behind : place.step;
    for (CollectiveStep& one : movements(moved)) {
      one.phase = Phase::start;
      one.last_turn = loop.loop;
    }
    moved.part = part_of(list[behind]);
    moved.scope = has_bodies(list[behind]) ? "" : list[behind].scope;
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(behind) + 1, std::move(moved));
    steps_.insert(steps_.begin() + static_cast<std::ptrdiff_t>(need), std::move(wait));
  }

  /// The call of one turn of the loop in place of that of all turns.
  void take_turns(Step& call, const ForStep& loop) {
    for (CollectiveStep& one : movements(call)) {
      Step alone = call;
      alone.what = std::move(one);
      take_turn(program_, alone, loop.dim, loop.loop);
      one = std::move(std::get<CollectiveStep>(alone.what));
      price(one, loop.turns);
    }
  }

  void price(const CollectiveStep& one, int64_t calls) {
    const MeshShape& mesh = program_.sharded.layout.mesh;
    ReshardStep& step = program_.sharded.steps[one.step];
    ValueType type;
    type.element = program_.buffer(one.from.buffer).type;
    Placement before, after;
    for (size_t i = 0; i < one.before.size(); ++i) {
      type.dims.push_back(one.before[i].dim);
      before.dims.push_back(one.before[i].placement);
      after.dims.push_back(one.after[i].placement);
    }
    ReshardStep in_memory = step;
    in_memory.from_dim = one.from_dim;
    in_memory.to_dim = one.to_dim;
    step.bytes = sent_bytes(program_.sharded.graph, mesh, type, before, after, in_memory);
    step.seconds =
        collective_seconds(program_.sharded.machine, mesh, step.axes, step.kind, step.bytes, group_size(mesh, step));
    step.calls = calls;
  }

  Program& program_;
  Steps& steps_;
  const ListPlaces places_;
  const bool is_followed_;  // what the forward steps start ends with them
  const bool shared_;
};

}  // namespace

bool start_in_last_turn(Program& program, bool shared) {
  bool any = false;
  const auto has_turns = [](const Step& step) {
    const auto* loop = std::get_if<ForStep>(&step.what);
    return loop && is_plain(*loop);
  };
  for_each_list(program, [&](Steps& steps) {
    if (std::ranges::any_of(steps, has_turns)) any = LastTurns(program, steps, shared).run() || any;
  });
  return any;
}

}  // namespace mesh
