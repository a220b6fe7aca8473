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

int32_t ring_of(const PipelineSchedule& schedule, std::optional<int32_t> waiting) {
  const std::vector<int> home = schedule.rank_of_stage();
  const std::vector<int32_t> rings = rings_of(schedule, ActionKind::forward, ActionKind::weight_gradient);
  int32_t most = std::ranges::max(rings);
  for (size_t stage = 1; waiting && stage < rings.size(); ++stage)
    if (home[stage - 1] != home[stage]) most = std::max(most, rings[stage] + *waiting);
  return most;
}

}  // namespace mesh
