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

}  // namespace mesh
