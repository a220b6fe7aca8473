// Collectives that are under way from one turn of a loop to the next: what the next turn reads is gathered while this
// one computes, what this one leaves is summed up while the next one does.
#include <algorithm>
#include <utility>
#include <vector>

#include "codegen/layout/cost.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/overlap.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

using Phase = CollectiveStep::Phase;
using Only = ForStep::Only;

/// A call between hosts that is not divided yet.
bool may_overlap(const Program& program, const Step& step) {
  return is_in(step, Phase::whole) && is_between_hosts(program, step);
}

bool has_slot(const Access& access, LoopId loop) {
  return std::ranges::find(access.turns, TurnIndex(loop)) != access.turns.end();
}

/// Of a loop in a list of steps, the calls of its body.
class LoopCalls {
 public:
  LoopCalls(const Program& program, const Steps& around, size_t at, const std::vector<bool>& outlives)
      : program_(program), around_(around), at_(at), loop_(std::get<ForStep>(around[at].what)), outlives_(outlives) {}

  /// Each turn has a place of its own for all that is moved, which its other steps are done with.
  bool outlasts_turn(size_t call) const {
    const Step& step = loop_.body[call];
    if (!may_overlap(program_, step)) return false;
    for (size_t i = call + 1; i < loop_.body.size(); ++i)
      if (common_memory(program_, step, loop_.body[i])) return false;
    return std::ranges::all_of(loop_.body,
                               [&](const Step& other) { return keeps_to_its_turn(program_, step, other, loop_.loop); });
  }

  /// What is moved is of this turn alone and stays as it is while the loop is made, and comes to a place that nobody
  /// uses before it in a turn.
  bool may_start_before_turn(size_t call) const {
    return may_overlap(program_, loop_.body[call]) &&
           std::ranges::all_of(movements(loop_.body[call]), [&](const CollectiveStep& one) {
             return is_one_way(one) && has_slot(one.from, loop_.loop) && !is_written(one.from) &&
                    is_for_a_turn(one.to) && first_use(one.to) == call && last_use(one.to) > call;
           });
  }

  /// What is moved lies in a place that nobody uses after it in a turn, and comes to a place of this turn that nobody
  /// else in the loop uses.
  bool may_end_in_next_turn(size_t call) const {
    return may_overlap(program_, loop_.body[call]) &&
           std::ranges::all_of(movements(loop_.body[call]), [&](const CollectiveStep& one) {
             return is_one_way(one) && has_slot(one.to, loop_.loop) && first_use(one.to) == call &&
                    last_use(one.to) == call && is_for_a_turn(one.from) && last_use(one.from) == call &&
                    first_use(one.from) < call;
           });
  }

  /// The first step of the body that uses what `places` lie in, and the last one.
  size_t first_use(const Access& place) const { return uses_in_body(place).front(); }
  size_t last_use(const Access& place) const { return uses_in_body(place).back(); }

 private:
  bool is_one_way(const CollectiveStep& one) const {
    return !one.at.owner && storage(program_, one.from.buffer) != storage(program_, one.to.buffer);
  }
  bool uses(const Step& step, const Access& place, bool to_write) const {
    bool found = false;
    for_each_access(step, [&](const Access& access, Use use) {
      found = found ||
              ((!to_write || use != Use::read) && storage(program_, access.buffer) == storage(program_, place.buffer));
    });
    return found;
  }
  std::vector<size_t> uses_in_body(const Access& place) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < loop_.body.size(); ++i)
      if (uses(loop_.body[i], place, false)) found.push_back(i);
    return found;
  }
  bool is_written(const Access& place) const { return uses(around_[at_], place, true); }

  /// Memory of one turn after the other, and of nothing else.
  bool is_for_a_turn(const Access& place) const {
    const Buffer& held = program_.buffer(storage(program_, place.buffer));
    if (held.stored || outlives_[storage(program_, place.buffer).index]) return false;
    if (std::ranges::find(place.turns, loop_.loop, &TurnIndex::loop) != place.turns.end()) return false;
    int inside = 0, all = 0;
    for_each_step(loop_.body, [&](const Step& step) { inside += !has_bodies(step) && uses(step, place, false); });
    for (const Routine& routine : program_.routines)
      for_each_step(routine.steps, [&](const Step& step) { all += !has_bodies(step) && uses(step, place, false); });
    return inside == all;
  }

  const Program& program_;
  const Steps& around_;
  size_t at_;
  const ForStep& loop_;
  const std::vector<bool>& outlives_;  // by buffer
};

/// The same loop as that at `at`, of which a turn does no more than these steps.
Step loop_beside(const Steps& steps, size_t at, Only only, Steps body) {
  const auto& loop = std::get<ForStep>(steps[at].what);
  Step made = steps[at];
  made.what = ForStep{loop.loop, loop.dim, loop.turns, loop.reverse, std::move(body), {}, {}, {}, only};
  made.part = part_of(steps[at]);
  made.notes.clear();
  for (Step& step : std::get<ForStep>(made.what).body) step.part = made.part;
  return made;
}

Step in_phase(Step call, Phase phase, std::optional<CollectiveStep::OtherTurn> other = {}) {
  for (CollectiveStep& one : movements(call)) {
    one.phase = phase;
    one.other_turn = other;
  }
  return call;
}

Step quiet(Step step) {
  step.notes.clear();
  return step;
}

/// Calls of the loops in a list, one loop at a time.
class TurnOverlap {
 public:
  TurnOverlap(const Program& program, Steps& steps, const std::vector<bool>& outlives, bool shared)
      : program_(program), steps_(steps), outlives_(outlives), shared_(shared) {}

  bool run() {
    bool any = false;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (const auto* loop = std::get_if<ForStep>(&steps_[i].what); !loop || !is_plain(*loop)) continue;
      at_ = i;
      take_over();
      any = any || !before_.empty() || !behind_.empty();
      // In the order in which the turns start them. Readers of the last turn's may follow at once.
      for (Step& step : behind_) {
        const Step call = std::get<ForStep>(step.what).body.front();
        const size_t need = first_need(program_, steps_, at_, call);
        steps_.insert(steps_.begin() + static_cast<std::ptrdiff_t>(need), std::move(step));
      }
      behind_.clear();
      if (before_.empty()) continue;
      Step first = loop_beside(steps_, i, Only::first, std::exchange(before_, {}));
      steps_.insert(steps_.begin() + static_cast<std::ptrdiff_t>(i++), std::move(first));
    }
    return any;
  }

 private:
  Steps& body() { return std::get<ForStep>(steps_[at_].what).body; }

  void take_over() {
    for (size_t call = 0; call < body().size();) {
      const LoopCalls calls(program_, steps_, at_, outlives_);
      if (calls.outlasts_turn(call)) call = wait_behind(call);
      else if (shared_ && calls.may_start_before_turn(call)) call = start_before(calls, call);
      else if (shared_ && calls.may_end_in_next_turn(call)) call = wait_in_next(calls, call);
      else ++call;
    }
  }

  int next() const { return std::get<ForStep>(steps_[at_].what).reverse ? -1 : 1; }
  CollectiveStep::OtherTurn turn_away(int away) { return {std::get<ForStep>(steps_[at_].what).loop, away}; }

  // Each gives the step with which the walk over the body goes on.

  size_t wait_behind(size_t call) {
    behind_.push_back(loop_beside(steps_, at_, Only::every, {quiet(in_phase(body()[call], Phase::wait))}));
    body()[call] = in_phase(body()[call], Phase::start);
    return call + 1;
  }

  size_t start_before(const LoopCalls& calls, size_t call) {
    const Step whole = body()[call];
    size_t used = call;
    for (const CollectiveStep& one : movements(whole)) used = std::max(used, calls.last_use(one.to));
    const size_t need = first_need(program_, body(), call, whole);
    before_.push_back(in_phase(whole, Phase::start));
    Step starts = quiet(in_phase(whole, Phase::start, turn_away(next())));
    starts.part = part_of(body()[used]);
    starts.scope = has_bodies(body()[used]) ? "" : body()[used].scope;
    insert(used + 1, std::move(starts));
    insert(need, wait_for(whole, body(), need));
    erase(call);
    return call;
  }

  size_t wait_in_next(const LoopCalls& calls, size_t call) {
    const Step whole = body()[call];
    size_t written = call;
    for (const CollectiveStep& one : movements(whole)) written = std::min(written, calls.first_use(one.from));
    behind_.push_back(loop_beside(steps_, at_, Only::last, {quiet(in_phase(whole, Phase::wait))}));
    body()[call] = in_phase(whole, Phase::start);
    Step waits = wait_for(whole, body(), written);
    for (CollectiveStep& one : movements(waits)) one.other_turn = turn_away(-next());
    insert(written, std::move(waits));
    return call + 2;
  }

  void insert(size_t at, Step step) {
    body().insert(body().begin() + static_cast<std::ptrdiff_t>(at), std::move(step));
  }
  void erase(size_t at) { body().erase(body().begin() + static_cast<std::ptrdiff_t>(at)); }

  const Program& program_;
  Steps& steps_;
  const std::vector<bool>& outlives_;
  bool shared_;
  size_t at_ = 0;          // of the loop in hand
  Steps before_, behind_;  // calls of its first turn; loops that wait
};

}  // namespace

bool overlap_turns(Program& program, bool shared) {
  bool any = false;
  const std::vector<bool> outlives = outlive_routine(program);
  for_each_list(program, [&](Steps& steps) { any = TurnOverlap(program, steps, outlives, shared).run() || any; });
  return any;
}

}  // namespace mesh
