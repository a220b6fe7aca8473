// partition.h: which layers each stage of a pipeline gets: consecutive ones, at least one a stage but for ends that
// have a stage of their own, so that the slowest stage is as fast as can be and every rank has the memory that its
// place in the pipeline needs.
#pragma once
#include <optional>
#include <string>
#include <variant>

#include "codegen/schedule/in_flight.h"

namespace mesh {

struct PipelineLayer {
  double time = 0;       // of a micro-batch through all of its passes, in any unit
  int64_t held = 0;      // bytes, whatever is under way: parameters, their gradients, what the optimizer keeps
  int64_t kept = 0;      // bytes that its backward pass needs of a micro-batch, but for what comes into the stage
  int64_t boundary = 0;  // bytes of a micro-batch that go on to the next layer
};

struct PipelineModel {
  std::vector<PipelineLayer> layers;
  PipelineLayer before, after;  // what the first and the last stage compute besides their layers
  /// By stage: its rank, and the most that it holds at a time.
  std::vector<int> rank_of_stage;
  std::vector<InFlight> in_flight;
  int32_t messages = 0;                          // slots of a stage for what goes over its boundaries
  std::optional<int64_t> memory;                 // bytes of a rank
  bool first_alone = false, last_alone = false;  // the first or the last stage has no layers

  int32_t stages() const { return static_cast<int32_t>(rank_of_stage.size()); }
  int32_t ranks() const;
  bool is_alone(int32_t stage) const { return (first_alone && stage == 0) || (last_alone && stage + 1 == stages()); }
  /// Stages that have layers.
  int32_t with_layers() const;
};

struct Partition {
  struct Share {
    double time = 0;
    int64_t bytes = 0;
  };
  std::vector<int32_t> sizes;  // layers of each stage
  std::vector<Share> stages, ranks;
};

/// What is wrong, and what would do.
struct PartitionMistake {
  std::string message, help;
};

using Partitioned = std::variant<Partition, PartitionMistake>;

/// "(8, 9, 8, 7)"
std::string cut_text(const std::vector<int32_t>& sizes);

/// The greatest time of a stage is the least that can be with each stage within the memory; of several such cuts one
/// whose longest stage has the fewest layers (all stages keep as much for their layers), of these the one over whose
/// boundaries the fewest bytes go, then the one whose first stages are shortest. The stages of one rank
/// are cut each by itself: that all of them are within the memory together is asked of the cut in the end.
Partitioned cut_evenly_in_time(const PipelineModel&);
/// As many layers in each stage as in any other, or one more: stage s of S begins at floor(s L / S).
Partitioned cut_evenly_in_number(const PipelineModel&);
/// The same without a model.
std::vector<int32_t> even_cut(int32_t layers, int32_t stages, bool first_alone = false, bool last_alone = false);
/// The user's own.
Partitioned cut_by_hand(const PipelineModel&, const std::vector<int32_t>& sizes);

}  // namespace mesh
