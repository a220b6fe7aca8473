#include "codegen/program/overlap.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "codegen/layout/cost.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/list_places.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

using Phase = CollectiveStep::Phase;

bool is_in(const Step& step, Phase phase) {
  const auto moved = movements(step);
  return !moved.empty() && moved.front().phase == phase;
}

double seconds_of(const Program& program, const Step& call) {
  double seconds = 0;
  for (const CollectiveStep& one : movements(call)) seconds += program.sharded.steps[one.step].seconds;
  return seconds;
}

/// Whether the call may stand before a step that it stands behind: calls keep their order, and what stands in a list of
/// its own its place.
bool may_pass(const Step& call, const UsedMemory& moved, const Step& before) {
  const bool calls = !movements(before).empty() && !is_in(before, Phase::wait);
  return !calls && !has_bodies(before) && (part_of(before) == Part::forward) == (part_of(call) == Part::forward) &&
         !moved.in_common(before);
}

/// Where the call is started at the latest so that steps before its `need` hide it: no earlier, since its buffers live
/// from there on.
size_t timely_start(const Program& program, const Steps& steps, size_t call, const UsedMemory& moved, size_t need) {
  const auto work = [&](size_t i) { return movements(steps[i]).empty() ? steps[i].seconds : 0; };
  double left = seconds_of(program, steps[call]);
  for (size_t i = call + 1; i < need; ++i) left -= work(i);
  size_t at = call;
  while (at > 0 && left > 0 && may_pass(steps[call], moved, steps[at - 1])) left -= work(--at);
  return at;
}

/// Whether a call that is started with `first` ends before the step at the latest, whatever that touches.
bool ends_calls(const Step& first, const Step& step) {
  return std::holds_alternative<UntilStep>(step.what) ||
         (part_of(step) == Part::forward) != (part_of(first) == Part::forward);
}

/// The first step behind `at` that may not change places with the call; the list's size: none.
size_t next_in_the_way(const Program& program, const ListPlaces& places, const Steps& steps, size_t at,
                       const Step& call, const UsedMemory& moved) {
  size_t next = steps.size();
  for (const size_t one : places.in_the_way(sets_of(program, call)))
    if (one > at && one < next && moved.in_common(steps[one])) next = one;
  return next;
}

/// Of the steps from `first` to `end` those that need what the call moves, or what such a step has made.
std::set<size_t> held_up(const Program& program, const ListPlaces& places, const Steps& steps, const Step& call,
                         const UsedMemory& moved, size_t first, size_t end) {
  std::set<size_t> held;
  const auto hold = [&](const Step& by, const UsedMemory& memory, size_t from) {
    for (const size_t one : places.in_the_way(sets_of(program, by)))
      if (from <= one && one < end && memory.in_common(steps[one])) held.insert(one);
  };
  hold(call, moved, first);
  for (const size_t one : held) hold(steps[one], UsedMemory(program, steps[one]), one + 1);  // grows behind `one`
  return held;
}

/// Puts updates that do without the call before the first step that needs it, where the call has them to hide behind:
/// between hosts. Where that step then stands.
size_t put_off(const Program& program, Steps& steps, ListPlaces& places, size_t call, const UsedMemory& moved,
               size_t need) {
  const MeshShape& mesh = program.sharded.layout.mesh;
  if (within_node(program.sharded.machine, mesh, movements(steps[call]).front().axes)) return need;
  if (steps[call].part == Part::forward) return need;
  size_t end = need;
  while (end < steps.size() && std::holds_alternative<Nest>(steps[end].what)) ++end;
  const std::set<size_t> held = held_up(program, places, steps, steps[call], moved, need, end);
  const size_t later = end - held.size();
  if (later == need) return need;
  std::vector<size_t> now(steps.size());
  std::iota(now.begin(), now.end(), size_t{0});
  Steps ordered(end - need);
  for (size_t at = need, free = need, late = later; at < end; ++at) {
    now[at] = held.contains(at) ? late++ : free++;
    ordered[now[at] - need] = std::move(steps[at]);
  }
  std::ranges::move(ordered, steps.begin() + static_cast<std::ptrdiff_t>(need));
  places.rearranged(now);
  return later;
}

void overlap(const Program& program, Steps& steps, bool early) {
  ListPlaces places(program, steps);
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!is_in(steps[i], Phase::whole)) continue;
    const MeshShape& mesh = program.sharded.layout.mesh;
    if (mesh.size(movements(steps[i]).front().axes) == 1) continue;
    size_t need = i + 1;
    const UsedMemory moved(program, steps[i]);
    const size_t in_the_way = next_in_the_way(program, places, steps, i, steps[i], moved);
    while (need < in_the_way && !ends_calls(steps[i], steps[need])) ++need;
    need = put_off(program, steps, places, i, moved, need);
    const size_t begin = early ? timely_start(program, steps, i, moved, need) : i;
    const auto at = [&](size_t index) { return steps.begin() + static_cast<std::ptrdiff_t>(index); };
    const auto computes = [](const Step& step) { return movements(step).empty(); };
    if (std::none_of(at(begin), at(i), computes) && std::none_of(at(i + 1), at(need), computes)) continue;
    Step wait = wait_for(steps[i], steps, need);
    for (CollectiveStep& one : movements(steps[i])) one.phase = Phase::start;
    places.put_in(need, wait);
    steps.insert(at(need), std::move(wait));
    if (begin == i) continue;
    steps[i].scope = steps[begin].scope;
    std::rotate(at(begin), at(i), at(i + 1));
    places.moved(i, begin);
  }
}

/// How many more calls are under way behind the steps than before.
int find_meanwhile(const Steps& steps, bool around, std::set<const Step*>& found) {
  int started = 0;
  for (const Step& step : steps) {
    const auto moved = movements(step);
    const bool own = !moved.empty() && !moved.front().other_turn;  // what other turns started they wait for as well
    if (own && is_in(step, Phase::wait)) --started;
    if (around || started > 0) found.insert(&step);
    const auto* loop = std::get_if<ForStep>(&step.what);
    const bool messages = loop && loop->order;
    for (const Steps* body : bodies(step)) {
      const bool within = around || started > 0 || messages;
      const int left = find_meanwhile(*body, within, found);
      if (left > 0 && !within) find_meanwhile(*body, true, found);  // while the next turns are executed
      started += left;
    }
    if (own && is_in(step, Phase::start)) ++started;
  }
  return started;
}

}  // namespace

std::span<CollectiveStep> movements(Step& step) {
  if (auto* one = std::get_if<CollectiveStep>(&step.what)) return {one, 1};
  if (auto* several = std::get_if<CombinedStep>(&step.what)) return several->collectives;
  return {};
}

size_t first_need(const Program& program, std::span<const Step> steps, size_t from, const Step& call) {
  const UsedMemory moved(program, call);
  size_t at = from + 1;
  while (at < steps.size() && !ends_calls(steps[from], steps[at]) && !moved.in_common(steps[at])) ++at;
  return at;
}

Step wait_for(const Step& call, std::span<const Step> steps, size_t need) {
  Step wait = call;
  for (CollectiveStep& one : movements(wait)) one.phase = Phase::wait;
  const Step& beside = need < steps.size() ? steps[need] : steps.back();  // of the same block instance
  wait.part = need < steps.size() && (part_of(beside) == Part::forward) != (call.part == Part::forward)
                  ? part_of(steps[need - 1])
                  : part_of(beside);
  wait.scope = has_bodies(beside) ? "" : beside.scope;
  wait.notes.clear();
  return wait;
}

std::span<const CollectiveStep> movements(const Step& step) {
  return movements(const_cast<Step&>(step));  // hands them out as they are
}

const AttentionStep::Ring* ring_of(const Step& step) {
  const auto* attention = std::get_if<AttentionStep>(&step.what);
  return attention && attention->ring ? &*attention->ring : nullptr;
}

bool keeps_to_its_turn(const Program& program, const Step& call, const Step& step, LoopId loop) {
  bool keeps = true;
  const TurnIndex turn(loop);
  for_each_access(call, [&](const Access& moved, Use) {
    const auto slot = std::ranges::find(moved.turns, turn);
    const auto at = slot - moved.turns.begin();
    if (slot == moved.turns.end()) return void(keeps = false);
    for_each_access(step, [&](const Access& used, Use) {
      if (storage(program, used.buffer) != storage(program, moved.buffer)) return;
      keeps = keeps && used.buffer == moved.buffer && std::ssize(used.turns) > at &&
              used.turns[static_cast<size_t>(at)] == turn;
    });
  });
  return keeps;
}

void overlap_collectives(Program& program, bool early) {
  for_each_list(program, [&](Steps& steps) { overlap(program, steps, early); });
}

bool hands_over(const ForStep& loop) {
  return std::ranges::any_of(
      loop.body, [](const Step& step) { return !movements(step).empty() && movements(step).front().other_turn; });
}

size_t wait_of(std::span<const Step> steps, size_t start) {
  const uint32_t call = movements(steps[start]).front().step;
  size_t at = start + 1;
  while (at < steps.size() && !(is_in(steps[at], Phase::wait) && movements(steps[at]).front().step == call)) ++at;
  return at;
}

std::set<const Step*> steps_meanwhile(const Program& program) {
  std::set<const Step*> found;
  for (const Routine& routine : program.routines) find_meanwhile(routine.steps, false, found);
  return found;
}

}  // namespace mesh
