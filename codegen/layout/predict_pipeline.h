// predict_pipeline.h: how the ranks of a pipeline spend their time and memory: its schedule, simulated with the
// predicted times of the machine.
#pragma once
#include <optional>
#include <vector>

#include "codegen/layout/pipeline_costs.h"

namespace mesh {

/// A coordinate of the pipeline's axis, with its stages: one, or several chunks.
struct PlannedRank {
  int32_t turns = 0;
  StageWork work = {};      // of one micro-batch
  int64_t kept = 0;         // bytes of the micro-batches under way, where there are most of them
  int32_t in_flight = 0;    // micro-batches of its stages under way at most, between their F and the end of their B
  double idle_seconds = 0;  // of the pipeline's time, in which it computes nothing
  double seconds() const;
};

struct PlannedPipeline {
  std::vector<PlannedRank> ranks;
  PipelineCosts costs;
  int64_t micro_batches;
  std::vector<int> rank_of_stage;
  Simulation run;     // in seconds
  AxisId axis = 0;    // that they lie along
  int32_t slots = 1;  // of a stage for each message, at least: what its gradients need too is kept longer

  const PlannedRank& slowest() const;
  /// Seconds in which the slowest rank waits for others.
  double bubble_seconds() const;
  /// Seconds in which it works: less than its work of all micro-batches where not all are computed again.
  double busy_seconds() const;
  /// Of all the time of all ranks.
  double idle_share() const;
  /// The slowest rank's time by the mean.
  double imbalance() const;
};

/// Of the layout's own schedule and cut; nothing of a step that is no pipeline.
std::optional<PlannedPipeline> planned_pipeline(const ShardedGraph&);
/// Of another schedule, whose stages have so many turns each, and room for so many messages that wait as is asked.
PlannedPipeline planned_pipeline(PipelineCosts, const PipelineSchedule&, const std::vector<int32_t>& sizes,
                                 std::optional<int32_t> waiting = {});

}  // namespace mesh
