#include "codegen/layout/predict_pipeline.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "codegen/schedule/in_flight.h"
#include "codegen/schedule/lower_schedule.h"

namespace mesh {

double PlannedRank::seconds() const {
  return work.seconds.forward + work.seconds.recompute + work.seconds.input_gradient + work.seconds.weight_gradient;
}

const PlannedRank& PlannedPipeline::slowest() const {
  return *std::ranges::max_element(ranks, {}, &PlannedRank::seconds);
}

double PlannedPipeline::bubble_seconds() const { return slowest().idle_seconds; }

double PlannedPipeline::busy_seconds() const { return run.makespan - slowest().idle_seconds; }

double PlannedPipeline::idle_share() const {
  const double idle = std::accumulate(run.idle.begin(), run.idle.end(), 0.0);
  return run.makespan > 0 ? idle / (run.makespan * static_cast<double>(run.idle.size())) : 0;
}

double PlannedPipeline::imbalance() const {
  double all = 0;
  for (const PlannedRank& rank : ranks) all += rank.seconds();
  return all > 0 ? slowest().seconds() * static_cast<double>(ranks.size()) / all : 1;
}

PlannedPipeline planned_pipeline(PipelineCosts given, const PipelineSchedule& schedule,
                                 const std::vector<int32_t>& sizes, std::optional<int32_t> waiting) {
  PlannedPipeline planned{{}, std::move(given), schedule.micro_batches, schedule.rank_of_stage(), {}};
  planned.slots = slots_of_messages(schedule, with_messages(schedule, waiting).value().waiting);
  const PipelineCosts& costs = planned.costs;
  planned.ranks.resize(schedule.ranks.size());
  const std::vector<InFlight> in_flight = most_in_flight(schedule);
  const bool again = schedule.has(ActionKind::recompute);
  ScheduleCosts times;
  times.latency = costs.message_seconds();
  int64_t before = 0;  // turns of earlier stages
  for (size_t stage = 0; stage < sizes.size(); before += sizes[stage++]) {
    PlannedRank& rank = planned.ranks[static_cast<size_t>(planned.rank_of_stage[stage])];
    StageWork work = costs.stage({before, before + sizes[stage]}, stage == 0, stage + 1 == sizes.size());
    if (rank.turns == 0) work.add(costs.each);
    times.stages.push_back(work.seconds);
    rank.turns += sizes[stage];
    rank.work.add(work);
    rank.kept += in_flight[stage].kept * work.kept;
    if (again && stage > 0) rank.kept += in_flight[stage].inputs * costs.boundary_after(before);
  }
  for (size_t i = 0; i < planned.ranks.size(); ++i) planned.ranks[i].work.held += costs.held_at[i];
  planned.run = simulate(schedule, times);
  for (size_t i = 0; i < planned.ranks.size(); ++i) {
    planned.ranks[i].idle_seconds = planned.run.idle[i];
    planned.ranks[i].in_flight = planned.run.peak_in_flight[i];
  }
  return planned;
}

std::optional<PlannedPipeline> planned_pipeline(const ShardedGraph& sharded) {
  std::optional<PipelineCosts> costs = pipeline_costs(sharded);
  if (!costs) return std::nullopt;
  const Pipeline& pipeline = sharded.layout.pipeline;
  PlannedPipeline planned = planned_pipeline(*std::move(costs), pipeline.lists, pipeline.cut, pipeline.waiting);
  planned.axis = pipeline.axis;
  return planned;
}

}  // namespace mesh
