#include "codegen/schedule/in_flight.h"

#include <algorithm>
#include <set>

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

int32_t ring_of(const PipelineSchedule& schedule) {
  return ring_of(schedule, ActionKind::forward, ActionKind::weight_gradient);
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

}  // namespace

int32_t ring_of(const PipelineSchedule& schedule, ActionKind from, ActionKind to) {
  std::vector<std::set<int32_t>> under_way(static_cast<size_t>(schedule.stages));
  int32_t most = 1;
  for (const std::vector<Action>& actions : schedule.ranks) {
    const std::set<Action> listed(actions.begin(), actions.end());
    for (const Action& action : actions) {
      if (!is_computation(action.kind)) continue;
      const bool again = listed.contains({ActionKind::recompute, action.stage, action.micro_batch});
      std::set<int32_t>& here = under_way[static_cast<size_t>(action.stage)];
      if (does(action, from, again)) here.insert(action.micro_batch);
      if (!here.empty()) most = std::max(most, *here.rbegin() - *here.begin() + 1);
      if (does(action, to, again)) here.erase(action.micro_batch);
    }
  }
  return most;
}

}  // namespace mesh
