#include "codegen/schedule/in_flight.h"

#include <algorithm>
#include <map>

namespace mesh {

std::vector<InFlight> most_in_flight(const PipelineSchedule& schedule) {
  std::vector<InFlight> most(schedule.stages), now(schedule.stages);
  for (const std::vector<Action>& actions : schedule.ranks) {
    const std::set<Action> listed(actions.begin(), actions.end());
    for (const Action& action : actions) {
      if (!is_computation(action.kind)) continue;
      InFlight &stage = now[action.stage], &peak = most[action.stage];
      if (action.kind == ActionKind::forward) ++stage.inputs;
      if (action.kind == ActionKind::forward || action.kind == ActionKind::recompute) ++stage.kept;
      peak = {std::max(peak.inputs, stage.inputs), std::max(peak.kept, stage.kept)};
      const Action again{ActionKind::recompute, action.stage, action.micro_batch};
      if (action.kind == ActionKind::forward && listed.contains(again)) --stage.kept;
      if (frees_activations(action.kind)) --stage.inputs, --stage.kept;
    }
  }
  return most;
}

namespace {

/// Whether an action does what one of that kind is for.
bool does(const Action& action, ActionKind kind, bool is_recomputed) {
  if (action.kind == kind) return true;
  switch (kind) {
    case ActionKind::recompute: return action.kind == ActionKind::forward && !is_recomputed;
    case ActionKind::input_gradient:
    case ActionKind::weight_gradient: return action.kind == ActionKind::backward;
    default: return false;
  }
}

/// By stage.
std::vector<int32_t> rings_of(const PipelineSchedule& schedule, ActionKind from, ActionKind to) {
  std::vector<std::set<int32_t>> under_way(static_cast<size_t>(schedule.stages));
  std::vector<int32_t> rings(under_way.size(), 1);
  for (const std::vector<Action>& actions : schedule.ranks) {
    const std::set<Action> listed(actions.begin(), actions.end());
    for (const Action& action : actions) {
      if (!is_computation(action.kind)) continue;
      const bool again = listed.contains({ActionKind::recompute, action.stage, action.micro_batch});
      std::set<int32_t>& here = under_way[static_cast<size_t>(action.stage)];
      if (does(action, from, again)) here.insert(action.micro_batch);
      int32_t& ring = rings[static_cast<size_t>(action.stage)];
      if (!here.empty()) ring = std::max(ring, *here.rbegin() - *here.begin() + 1);
      if (does(action, to, again)) here.erase(action.micro_batch);
    }
  }
  return rings;
}

}  // namespace

int32_t ring_of(const PipelineSchedule& schedule) {
  return ring_of(schedule, ActionKind::forward, ActionKind::weight_gradient);
}

int32_t ring_of(const PipelineSchedule& schedule, ActionKind from, ActionKind to) {
  return std::ranges::max(rings_of(schedule, from, to));
}

namespace {

/// What one stage has of a value that stages hand on, along the list of its rank.
class HandedOn {
 public:
  HandedOn(const std::vector<Action>& list, int32_t stage, bool forward, const std::set<SlotUse>& uses)
      : list_(list), listed_(list.begin(), list.end()), stage_(stage), forward_(forward), uses_(uses) {}

  int32_t ring() const {
    std::map<int32_t, size_t> last;
    for (size_t at = 0; at < list_.size(); ++at)
      if (is_receive(list_[at]) || is_use(list_[at]) || is_taken_by(list_[at])) last[list_[at].micro_batch] = at;
    std::set<int32_t> under_way;
    int32_t ring = 1;
    for (size_t at = 0; at < list_.size(); ++at) {
      const Action& one = list_[at];
      if (is_receive(one) || is_use(one)) under_way.insert(one.micro_batch);
      if (!under_way.empty()) ring = std::max(ring, *under_way.rbegin() - *under_way.begin() + 1);
      if (const auto end = last.find(one.micro_batch); end != last.end() && end->second == at)
        under_way.erase(one.micro_batch);
    }
    return ring;
  }

 private:
  bool is_receive(const Action& one) const {
    return one.stage == stage_ && one.kind == (forward_ ? ActionKind::receive_forward : ActionKind::receive_backward);
  }
  bool is_use(const Action& one) const {
    if (one.stage != stage_ || !is_computation(one.kind)) return false;
    const bool again = listed_.contains({ActionKind::recompute, one.stage, one.micro_batch});
    return std::ranges::any_of(
        uses_, [&](const SlotUse& use) { return (!use.stage || use.stage == stage_) && does(one, use.kind, again); });
  }
  /// By the stage that it is for, of the same rank.
  bool is_taken_by(const Action& one) const {
    return one.stage == stage_ + (forward_ ? 1 : -1) &&
           (forward_ ? one.kind == ActionKind::forward : gives_gradient(one.kind));
  }

  const std::vector<Action>& list_;
  const std::set<Action> listed_;
  const int32_t stage_;
  const bool forward_;
  const std::set<SlotUse>& uses_;
};

}  // namespace

int32_t ring_of_message(const PipelineSchedule& schedule, bool forward, const std::set<SlotUse>& uses) {
  const std::vector<int> home = schedule.rank_of_stage();
  int32_t most = 1;
  for (int32_t stage = 0; stage < schedule.stages; ++stage) {
    const std::vector<Action>& list = schedule.ranks[static_cast<size_t>(home[static_cast<size_t>(stage)])];
    most = std::max(most, HandedOn(list, stage, forward, uses).ring());
  }
  return most;
}

int32_t most_waiting(const PipelineSchedule& schedule) {
  int32_t most = 0;
  for (const std::vector<Action>& list : schedule.ranks) {
    std::map<std::pair<bool, int32_t>, std::set<int32_t>> waiting;  // by direction and stage
    for (const Action& one : list) {
      const bool back = one.kind == ActionKind::receive_backward || gives_gradient(one.kind);
      std::set<int32_t>& here = waiting[{back, one.stage}];
      if (one.kind == ActionKind::receive_forward || one.kind == ActionKind::receive_backward)
        here.insert(one.micro_batch);
      else if (one.kind == ActionKind::forward || gives_gradient(one.kind)) here.erase(one.micro_batch);
      most = std::max(most, static_cast<int32_t>(here.size()));
    }
  }
  return most;
}

}  // namespace mesh
