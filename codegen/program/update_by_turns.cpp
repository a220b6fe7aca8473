// Updates in the loop that waits for their gradients: that of a layer hides what the next layers still wait for.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/program/extent.h"
#include "codegen/program/overlap.h"
#include "codegen/program/put_off.h"
#include "codegen/program/take_turn.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

/// Whether each turn of the loop only waits for what that turn of another loop has started.
bool only_waits(const ForStep& loop) {
  const auto waits = [](const Step& step) { return is_in(step, CollectiveStep::Phase::wait); };
  return ends_others(loop) && loop.only == ForStep::Only::every && !loop.own && std::ranges::all_of(loop.body, waits);
}

/// What steps in the turns of a loop use. Of memory that one of them writes each turn has a slot of its own.
class SlotsOfTurns {
 public:
  SlotsOfTurns(const Program& program, LoopId loop) : program_(program), loop_(loop) {}

  /// Whether that holds with one step more, which is taken in then.
  bool add(const Step& step) {
    std::unordered_map<uint32_t, Used> all;
    for_each_access(step, [&](const Access& access, Use use) {
      const uint32_t memory = storage(program_, access.buffer).index;
      const auto known = used_.find(memory);
      Used& used = all.try_emplace(memory, known == used_.end() ? Used{access.buffer} : known->second).first->second;
      const bool has_slot = std::ranges::find(access.turns, TurnIndex(loop_)) != access.turns.end();
      used.in_slots = used.in_slots && has_slot && access.buffer == used.buffer;
      used.written = used.written || use != Use::read;
    });
    if (std::ranges::any_of(all, [](const auto& one) { return one.second.written && !one.second.in_slots; }))
      return false;
    for (const auto& [memory, used] : all) used_.insert_or_assign(memory, used);
    return true;
  }

 private:
  struct Used {
    BufferId buffer;
    bool in_slots = true, written = false;
  };
  const Program& program_;
  LoopId loop_;
  std::unordered_map<uint32_t, Used> used_;  // by memory
};

/// What some steps use.
class UsedBySteps {
 public:
  void add(const StepSets& sets) {
    reads_.insert(sets.reads.begin(), sets.reads.end());
    writes_.insert(sets.writes.begin(), sets.writes.end());
  }
  /// Whether the step with these sets may change places with them.
  bool let_pass(const StepSets& sets) const {
    const auto written = [&](uint32_t memory) { return writes_.contains(memory); };
    const auto used = [&](uint32_t memory) { return written(memory) || reads_.contains(memory); };
    return std::ranges::none_of(sets.reads, written) && std::ranges::none_of(sets.writes, used);
  }

 private:
  std::unordered_set<uint32_t> reads_, writes_;  // memory
};

size_t end_of_nests(const Steps& steps, size_t from) {
  while (from < steps.size() && std::holds_alternative<Nest>(steps[from].what)) ++from;
  return from;
}

/// Of the nests right behind the loop, puts before it those that need nothing it waits for and make what others need
/// that do. Where the loop then stands.
size_t put_behind(const Program& program, Steps& steps, size_t loop) {
  const size_t first = loop + 1, end = end_of_nests(steps, first);
  const std::set<size_t> held =
      held_up(program, ListPlaces(program, steps), steps, steps[loop], UsedMemory(program, steps[loop]), first, end);
  UsedBySteps later;
  Steps before, behind;  // the last one first
  for (size_t i = end; i-- > first;) {
    const StepSets sets = sets_of(program, steps[i]);
    const bool needed = !held.contains(i) && !later.let_pass(sets);
    if (needed || held.contains(i)) later.add(sets);
    (needed ? before : behind).push_back(std::move(steps[i]));
  }
  const size_t now = loop + before.size();
  behind.push_back(std::move(steps[loop]));
  std::move(before.rbegin(), before.rend(), steps.begin() + static_cast<std::ptrdiff_t>(loop));
  std::move(behind.rbegin(), behind.rend(), steps.begin() + static_cast<std::ptrdiff_t>(now));
  return now;
}

/// Takes updates right behind the loop into it.
void take_updates(const Program& program, Steps& steps, size_t at) {
  auto& loop = std::get<ForStep>(steps[at].what);
  SlotsOfTurns slots(program, loop.loop);
  UsedBySteps left;
  const auto joins = [&](const Step& step, const StepSets& sets) {
    if (step.part != Part::update || !may_take_turns(program, step, loop.dim) || !left.let_pass(sets)) return false;
    Step turn = step;
    take_turn(program, turn, loop.dim, loop.loop);
    turn.seconds /= static_cast<double>(loop.turns);
    if (!slots.add(turn)) return false;
    loop.body.push_back(std::move(turn));
    return true;
  };
  for (const Step& wait : loop.body)
    if (!slots.add(wait)) return;
  const size_t waits = loop.body.size();
  size_t kept = at + 1;
  const size_t end = end_of_nests(steps, kept);
  for (size_t next = kept; next < end; ++next) {
    const StepSets sets = sets_of(program, steps[next]);
    if (joins(steps[next], sets)) continue;
    left.add(sets);
    if (kept != next) steps[kept] = std::move(steps[next]);
    ++kept;
  }
  if (kept == end) return;
  steps[at].part = Part::update;
  for (size_t i = 0; i < waits; ++i) loop.body[i].part = Part::update;
  steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(kept), steps.begin() + static_cast<std::ptrdiff_t>(end));
}

}  // namespace

void update_by_turns(Program& program) {
  for_each_list(program, [&](Steps& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      const auto* loop = std::get_if<ForStep>(&steps[i].what);
      if (!loop || part_of(steps[i]) == Part::forward || !only_waits(*loop)) continue;
      i = put_behind(program, steps, i);
      take_updates(program, steps, i);
    }
  });
}

}  // namespace mesh
