// pipeline_costs.h: what a placed step that is a pipeline costs a rank: of one turn of its loop, of what stands before
// the loop and behind it, and of what goes from stage to stage. By these numbers a cut is chosen and a plan is told.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/layout/sharded_graph.h"
#include "codegen/schedule/partition.h"
#include "codegen/schedule/simulate.h"

namespace mesh {

/// Of one micro-batch.
struct StageWork {
  StageCosts seconds = {0, 0, 0,
                        0};  // communication within the stage included; what turns are computed again for is I's
  double communication = 0;  // of these seconds, in all passes
  int64_t held = 0;          // bytes, whatever is under way: parameters, their gradients, moments
  int64_t kept = 0;          // bytes that F leaves to the gradients, or R
  void add(const StageWork&, double times = 1);
};

/// What a stage hands to a neighbour for each micro-batch.
struct StageMessage {
  AxisId axis;
  std::string name;  // of what the loop carries: "h", "d_h"
  int64_t bytes;     // of the rank that sends most
  double seconds;    // of one message
  bool down;         // from later stages to earlier ones
};

struct PipelineCosts {
  StageWork turn, before, after, each;  // of one turn; the first stage's; the last one's; what every rank does
  std::vector<StageMessage> crossings;
  double outside_compute = 0;  // seconds of a step beside the pipeline, of the rank that has most: the update
  /// Bytes of a micro-batch that come into a stage from the one before.
  int64_t boundary() const;
  /// Until what a stage gives has come to the next one, or the one before.
  double message_seconds() const;
  /// What a stage with so many turns does, but for what every rank does.
  StageWork stage(int64_t turns, bool first, bool last) const;
};

/// Nothing of a step that is no pipeline.
std::optional<PipelineCosts> pipeline_costs(const ShardedGraph&);

/// For schedule/partition: turns as layers, within so many bytes of a rank.
PipelineModel model_of(const PipelineCosts&, int64_t turns, const PipelineSchedule&, std::optional<int64_t> memory);

}  // namespace mesh
