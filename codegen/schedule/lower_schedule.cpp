#include "codegen/schedule/lower_schedule.h"

#include <algorithm>
#include <set>

namespace mesh {

PipelineSchedule with_recompute(PipelineSchedule schedule, Remat remat) {
  if (remat == Remat::none) return schedule;
  for (std::vector<Action>& actions : schedule.ranks) {
    std::vector<Action> lowered;
    for (const Action& action : actions) {
      const bool kept = remat == Remat::except_last && action.micro_batch + 1 == schedule.micro_batches;
      if (gives_gradient(action.kind) && !kept)
        lowered.push_back({ActionKind::recompute, action.stage, action.micro_batch});
      lowered.push_back(action);
    }
    actions = std::move(lowered);
  }
  return schedule;
}

std::optional<PipelineSchedule> with_communication(const PipelineSchedule& schedule) {
  const std::vector<int> rank_of_stage = schedule.rank_of_stage();
  PipelineSchedule lowered{schedule.stages, schedule.micro_batches, {}};
  lowered.ranks.resize(schedule.ranks.size());
  std::vector<size_t> next(schedule.ranks.size());
  std::set<Action> done;
  const auto ready = [&](const Action& action) {
    const auto is_done = [&](ActionKind kind, int32_t stage) {
      return done.contains({kind, stage, action.micro_batch});
    };
    if (action.kind == ActionKind::forward) return action.stage == 0 || is_done(ActionKind::forward, action.stage - 1);
    if (!gives_gradient(action.kind) || action.stage + 1 == schedule.stages) return true;
    return is_done(ActionKind::backward, action.stage + 1) || is_done(ActionKind::input_gradient, action.stage + 1);
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < next.size(); ++rank) {
      if (next[rank] == schedule.ranks[rank].size()) continue;
      const Action& action = schedule.ranks[rank][next[rank]];
      if (!ready(action)) continue;
      ++next[rank];
      moved = true;
      if (action.kind == ActionKind::idle) continue;
      done.insert(action);
      lowered.ranks[rank].push_back(action);
      const std::optional<Message> message = message_of(action, rank_of_stage);
      if (!message) continue;
      lowered.ranks[rank].push_back(message->send);
      lowered.ranks[message->to].push_back(message->receive);
    }
  }
  for (size_t rank = 0; rank < next.size(); ++rank)
    if (next[rank] != schedule.ranks[rank].size()) return std::nullopt;
  return lowered;
}

PipelineSchedule with_whole_backwards(PipelineSchedule schedule) {
  for (std::vector<Action>& actions : schedule.ranks) {
    std::vector<Action> merged;
    for (const Action& action : actions) {
      if (action.kind == ActionKind::idle) continue;
      const Action half{ActionKind::input_gradient, action.stage, action.micro_batch};
      if (action.kind == ActionKind::weight_gradient && !merged.empty() && merged.back() == half)
        merged.back().kind = ActionKind::backward;
      else merged.push_back(action);
    }
    actions = std::move(merged);
  }
  return schedule;
}

PipelineSchedule with_gathered_parameters(PipelineSchedule schedule, int most) {
  for (std::vector<Action>& actions : schedule.ranks) {
    std::vector<Action> lowered;
    std::vector<int32_t> whole;  // stages, the one gathered first in front
    for (size_t at = 0; at < actions.size(); ++at) {
      if (actions[at].kind == ActionKind::idle) continue;
      // The stages that are used next, this action's first.
      std::vector<int32_t> wanted;
      for (size_t later = at; later < actions.size() && wanted.size() < static_cast<size_t>(most); ++later)
        if (actions[later].kind != ActionKind::idle && std::ranges::find(wanted, actions[later].stage) == wanted.end())
          wanted.push_back(actions[later].stage);
      std::erase_if(whole, [&](int32_t stage) {
        if (std::ranges::find(wanted, stage) != wanted.end()) return false;
        lowered.push_back({ActionKind::reshard, stage, -1});
        return true;
      });
      for (const int32_t stage : wanted)
        if (std::ranges::find(whole, stage) == whole.end()) {
          lowered.push_back({ActionKind::unshard, stage, -1});
          whole.push_back(stage);
        }
      lowered.push_back(actions[at]);
    }
    for (const int32_t stage : whole) lowered.push_back({ActionKind::reshard, stage, -1});
    actions = std::move(lowered);
  }
  return schedule;
}

PipelineSchedule with_reduced_gradients(PipelineSchedule schedule) {
  for (std::vector<Action>& actions : schedule.ranks) {
    std::set<int32_t> reduced;
    std::vector<Action> backwards;  // the list, its end first
    for (size_t at = actions.size(); at-- > 0;) {
      if (frees_activations(actions[at].kind) && reduced.insert(actions[at].stage).second)
        backwards.push_back({ActionKind::reduce_gradient, actions[at].stage, -1});
      backwards.push_back(actions[at]);
    }
    actions.assign(backwards.rbegin(), backwards.rend());
  }
  return schedule;
}

}  // namespace mesh
