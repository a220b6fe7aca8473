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
  std::vector<std::set<int32_t>> under_way(static_cast<size_t>(schedule.stages));
  int32_t most = 1;
  for (const std::vector<Action>& actions : schedule.ranks)
    for (const Action& action : actions) {
      if (!is_computation(action.kind)) continue;
      std::set<int32_t>& here = under_way[static_cast<size_t>(action.stage)];
      if (action.kind == ActionKind::forward) here.insert(action.micro_batch);
      if (!here.empty()) most = std::max(most, *here.rbegin() - *here.begin() + 1);
      if (frees_activations(action.kind)) here.erase(action.micro_batch);
    }
  return most;
}

}  // namespace mesh
