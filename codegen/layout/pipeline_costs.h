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
  size_t loop;       // whose carry it is
  StageRange among;  // that hand it on
};

struct PipelineCosts {
  std::vector<StageWork> turns;  // by loop, of one turn
  std::vector<StageWork> gaps;   // what stands in front of each loop, and at the end what stands behind all of them
  StageWork each;                // what every rank does
  std::vector<int64_t> held_at;  // by coordinate: bytes that it holds beside all these, as it has turns of some loop
  std::vector<int32_t> loops;    // how many turns each has
  std::vector<StageMessage> crossings;
  double outside_compute = 0;  // seconds of a step beside the pipeline, of the rank that has most: the update
  /// Bytes of a micro-batch that go on from a turn of a loop to the next stage.
  int64_t boundary(size_t loop) const;
  /// The same that come into a stage behind the first one, with so many turns in all stages before.
  int64_t boundary_after(int64_t turns) const;
  /// Until what a stage gives has come to the next one, or the one before.
  double message_seconds() const;
  /// What a stage does that has these of the row of all turns, but for what every rank does: the first one also what
  /// stands in front, the last one what stands behind.
  StageWork stage(meshrt::IndexRange turns, bool is_first, bool is_last) const;
};

/// Nothing of a step that is no pipeline.
std::optional<PipelineCosts> pipeline_costs(const ShardedGraph&);

/// For schedule/partition: turns as layers, within so many bytes of a rank; with the ends and the room for messages
/// that a layout's pipeline has.
PipelineModel model_of(const PipelineCosts&, const PipelineSchedule&, std::optional<int64_t> memory, const Pipeline&);

}  // namespace mesh
