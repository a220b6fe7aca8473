#include "codegen/schedule/simulate.h"

#include <algorithm>
#include <map>

namespace mesh {

namespace {

class Simulator {
 public:
  Simulator(const PipelineSchedule& schedule, const ScheduleCosts& costs)
      : schedule_(schedule), costs_(costs), rank_of_stage_(schedule.rank_of_stage()), next_(schedule.ranks.size()) {
    stages_of_.resize(schedule.ranks.size());
    for (const int rank : rank_of_stage_) ++stages_of_[rank];
    result_.actions.resize(schedule.ranks.size());
  }

  Simulation run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < next_.size(); ++rank)
        while (next_[rank] < schedule_.ranks[rank].size() && step(rank)) moved = true;
    }
    for (const auto& actions : result_.actions)
      if (!actions.empty()) result_.makespan = std::max(result_.makespan, actions.back().end);
    for (size_t rank = 0; rank < next_.size(); ++rank) {
      double busy = 0;
      int in_flight = 0, peak = 0;
      for (const Simulation::Timed& one : result_.actions[rank]) {
        busy += one.end - one.begin;
        if (one.action.kind == ActionKind::forward) peak = std::max(peak, ++in_flight);
        if (frees_activations(one.action.kind)) --in_flight;
      }
      result_.idle.push_back(result_.makespan - busy);
      result_.peak_in_flight.push_back(peak);
    }
    return std::move(result_);
  }

 private:
  /// Makes the rank's next action, if it is known when that can begin.
  bool step(size_t rank) {
    const Action& action = schedule_.ranks[rank][next_[rank]];
    if (is_computation(action.kind)) {
      const std::optional<double> ready = comes_at(action);
      if (!ready) return false;
      auto& actions = result_.actions[rank];
      const double begin = std::max(*ready, actions.empty() ? 0 : actions.back().end);
      const double end = begin + cost(action, rank);
      actions.push_back({action, begin, end});
      end_of_[action] = end;
    }
    ++next_[rank];
    return true;
  }

  double cost(const Action& action, size_t rank) const {
    const bool by_stage = !costs_.stages.empty();
    const StageCosts& of = by_stage ? costs_.stages[action.stage] : costs_.ranks[rank];
    const auto whole = [&] {
      switch (action.kind) {
        case ActionKind::forward: return of.forward;
        case ActionKind::recompute: return of.recompute;
        case ActionKind::input_gradient: return of.input_gradient;
        case ActionKind::weight_gradient: return of.weight_gradient;
        default: return of.input_gradient + of.weight_gradient;
      }
    };
    return by_stage ? whole() : whole() / stages_of_[rank];
  }

  /// When all is there that another stage computes for it.
  std::optional<double> comes_at(const Action& action) const {
    if (action.kind == ActionKind::forward)
      return action.stage == 0 ? 0 : arrival({ActionKind::forward, action.stage - 1, action.micro_batch}, action.stage);
    const bool waits = gives_gradient(action.kind) || (action.kind == ActionKind::recompute && costs_.late_recompute);
    if (!waits || action.stage + 1 == schedule_.stages) return 0;
    const auto whole = arrival({ActionKind::backward, action.stage + 1, action.micro_batch}, action.stage);
    return whole ? whole : arrival({ActionKind::input_gradient, action.stage + 1, action.micro_batch}, action.stage);
  }

  std::optional<double> arrival(const Action& from, int32_t to_stage) const {
    const auto found = end_of_.find(from);
    if (found == end_of_.end()) return std::nullopt;
    return found->second + (rank_of_stage_[from.stage] == rank_of_stage_[to_stage] ? 0 : costs_.latency);
  }

  const PipelineSchedule& schedule_;
  const ScheduleCosts& costs_;
  const std::vector<int> rank_of_stage_;
  std::vector<int> stages_of_;  // by rank
  std::vector<size_t> next_;
  std::map<Action, double> end_of_;
  Simulation result_;
};

}  // namespace

Simulation simulate(const PipelineSchedule& schedule, const ScheduleCosts& costs) {
  return Simulator(schedule, costs).run();
}

}  // namespace mesh
