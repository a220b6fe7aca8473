#include "codegen/program/overlap.h"

#include <algorithm>
#include <set>
#include <vector>

#include "codegen/layout/cost.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/fuse.h"
#include "codegen/program/list_places.h"
#include "codegen/program/put_off.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

using Phase = CollectiveStep::Phase;

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

/// Seconds that a step computes.
double work_of(const Step& step) {
  if (!movements(step).empty()) return 0;
  double seconds = step.seconds;
  const auto* loop = std::get_if<ForStep>(&step.what);
  for (const Steps* body : bodies(step))
    for (const Step& inner : *body) seconds += static_cast<double>(loop ? loop->made() : 1) * work_of(inner);
  return seconds;
}

/// Where the call is started at the latest so that steps before its `need` hide it: no earlier, since its buffers live
/// from there on.
size_t timely_start(const Program& program, const Steps& steps, size_t call, const UsedMemory& moved, size_t need) {
  const auto work = [&](size_t i) { return work_of(steps[i]); };
  double left = seconds_of(program, steps[call]);
  for (size_t i = call + 1; i < need; ++i) left -= work(i);
  size_t at = call;
  while (at > 0 && left > 0 && may_pass(steps[call], moved, steps[at - 1])) left -= work(--at);
  return at;
}

/// Whether all of them need all that a call moves. Else it ends with the forward part: they would wait for it in vain,
/// and its memory would be theirs as well.
bool all_need(const Program& program, const std::vector<Steps*>& followers, const Step& call) {
  return std::ranges::all_of(followers, [&](const Steps* steps) {
    std::set<uint32_t> read;
    for (const Step& step : *steps) {
      const StepSets sets = sets_of(program, step);
      read.insert(sets.reads.begin(), sets.reads.end());
    }
    return std::ranges::all_of(movements(call), [&](const CollectiveStep& one) {
      return read.contains(storage(program, one.to.buffer).index);
    });
  });
}

/// The first step behind `at` that may not change places with the call; the list's size: none.
size_t next_in_the_way(const Program& program, const ListPlaces& places, const Steps& steps, size_t at,
                       const Step& call, const UsedMemory& moved) {
  size_t next = steps.size();
  for (const size_t one : places.in_the_way(sets_of(program, call)))
    if (one > at && one < next && moved.in_common(steps[one])) next = one;
  return next;
}

/// Behind those that wait already.
void wait_first(const Step& call, Steps& steps) {
  const auto first = std::ranges::find_if_not(steps, [](const Step& step) { return is_in(step, Phase::wait); });
  steps.insert(first, wait_for(call, steps, static_cast<size_t>(first - steps.begin())));
}

void overlap(Program& program, Steps& steps, bool early) {
  ListPlaces places(program, steps);
  const std::vector<Steps*> followers = followers_of(program, steps);
  size_t forward = followers.empty() ? 0 : forward_steps(steps);
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!is_in(steps[i], Phase::whole)) continue;
    const MeshShape& mesh = program.sharded.layout.mesh;
    if (mesh.size(movements(steps[i]).front().axes) == 1) continue;
    size_t need = i + 1;
    const UsedMemory moved(program, steps[i]);
    size_t end = next_in_the_way(program, places, steps, i, steps[i], moved);
    if (i < forward && !all_need(program, followers, steps[i])) end = std::min(end, forward);
    while (need < end && !std::holds_alternative<UntilStep>(steps[need].what)) ++need;
    if (steps[i].part != Part::forward && is_between_hosts(program, steps[i]))
      need = put_off(program, steps, places, steps[i], moved, need);
    const size_t begin = early ? timely_start(program, steps, i, moved, need) : i;
    const auto at = [&](size_t index) { return steps.begin() + static_cast<std::ptrdiff_t>(index); };
    const auto computes = [](const Step& step) { return movements(step).empty(); };
    if (std::none_of(at(begin), at(i), computes) && std::none_of(at(i + 1), at(need), computes)) continue;
    if (i < forward && forward < need)
      for (Steps* others : followers) wait_first(steps[i], *others);
    Step wait = wait_for(steps[i], steps, need);
    for (CollectiveStep& one : movements(steps[i])) one.phase = Phase::start;
    if (need <= forward && wait.part == Part::forward && i < forward) ++forward;
    places.put_in(need, wait);
    steps.insert(at(need), std::move(wait));
    if (begin == i) continue;
    steps[i].scope = steps[begin].scope;
    std::rotate(at(begin), at(i), at(i + 1));
    places.moved(i, begin);
  }
}

/// How many calls are under way behind the steps, before which `started` are.
int find_meanwhile(std::span<const Step> steps, int started, bool around, std::set<const Step*>& found) {
  for (const Step& step : steps) {
    const auto moved = movements(step);
    const bool own = !moved.empty() && !moved.front().other_turn;  // what other turns started they wait for as well
    if (own && is_in(step, Phase::wait)) --started;
    if (around || started > 0) found.insert(&step);
    const auto* loop = std::get_if<ForStep>(&step.what);
    const bool messages = loop && loop->order;
    for (const Steps* body : bodies(step)) {
      const bool within = around || started > 0 || messages;
      const int left = find_meanwhile(*body, 0, within, found);
      if (left > 0 && !within) find_meanwhile(*body, 0, true, found);  // while the next turns are executed
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
  const auto ends_call = [&](const Step& step) {
    const bool leaves_forward = part_of(steps[from]) == Part::forward && part_of(step) != Part::forward;
    return leaves_forward || std::holds_alternative<UntilStep>(step.what) || moved.in_common(step);
  };
  size_t at = from + 1;
  while (at < steps.size() && !ends_call(steps[at])) ++at;
  return at;
}

std::vector<Steps*> followers_of(Program& program, const Steps& steps) {
  std::vector<Steps*> found;
  for (Routine& routine : program.routines)
    if (routine.after_forward_of && &program.routines[*routine.after_forward_of].steps == &steps)
      found.push_back(&routine.steps);
  return found;
}

Step wait_for(const Step& call, std::span<const Step> steps, size_t need) {
  Step wait = call;
  for (CollectiveStep& one : movements(wait)) one.phase = Phase::wait;
  const Step& beside = need < steps.size() ? steps[need] : steps.back();  // of the same block instance
  const bool leaves = (part_of(beside) == Part::forward) != (call.part == Part::forward);
  wait.part = need > 0 && need < steps.size() && leaves ? part_of(steps[need - 1]) : part_of(beside);
  wait.scope = has_bodies(beside) ? "" : beside.scope;
  wait.notes.clear();
  return wait;
}

std::span<const CollectiveStep> movements(const Step& step) {
  return movements(const_cast<Step&>(step));  // hands them out as they are
}

bool is_in(const Step& step, Phase phase) {
  const auto moved = movements(step);
  return !moved.empty() && moved.front().phase == phase;
}

bool is_between_hosts(const Program& program, const Step& call) {
  return !within_node(program.sharded.machine, program.sharded.layout.mesh, movements(call).front().axes);
}

bool is_plain(const ForStep& loop) {
  return !loop.own && !loop.stage && !loop.order && loop.only == ForStep::Only::every && loop.turns > 1 &&
         !loop.body.empty() && !std::holds_alternative<UntilStep>(loop.body.back().what);
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

bool ends_others(const ForStep& loop) {
  return !loop.body.empty() && is_in(loop.body.front(), Phase::wait) && !hands_over(loop);
}

size_t wait_of(std::span<const Step> steps, size_t start) {
  const uint32_t call = movements(steps[start]).front().step;
  size_t at = start + 1;
  while (at < steps.size() && !(is_in(steps[at], Phase::wait) && movements(steps[at]).front().step == call)) ++at;
  return at;
}

std::set<const Step*> steps_meanwhile(const Program& program) {
  std::set<const Step*> found;
  for (const Routine& routine : program.routines) {
    int started = 0;
    if (routine.after_forward_of) {
      const Steps& other = program.routines[*routine.after_forward_of].steps;
      started = find_meanwhile(std::span(other).first(forward_steps(other)), 0, false, found);
    }
    find_meanwhile(routine.steps, started, false, found);
  }
  return found;
}

}  // namespace mesh
