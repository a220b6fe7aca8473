// ranks.h: rows of schedules carried out by ranks over channels, as an emitted program does: what the stages compute is
// the test's own.
#pragma once
#include <algorithm>
#include <vector>

#include "codegen/schedule/schedule.h"
#include "meshrt/pipeline.h"
#include "meshrt/rank.h"

namespace mesh::tests {

using meshrt::ChannelEnd, meshrt::PipelineAction, meshrt::Rank, meshrt::StageChannels, meshrt::StageWork;

/// What the stages of one rank compute.
class Kernels {
 public:
  virtual ~Kernels() = default;
  /// Of what came from the stage before, or from the next; the first and the last stage have nothing.
  virtual float forward(int32_t stage, int32_t micro_batch, float came) = 0;
  virtual float backward(StageWork, int32_t stage, int32_t micro_batch, float came) = 0;
  virtual void other(StageWork) {}
};

/// One rank's part. What stages hand on lies in the rank's arena, which has arena_bytes() of it.
class RankOfPipeline {
 public:
  static size_t arena_bytes(const PipelineSchedule& schedule) {
    return kinds * sizeof(float) * static_cast<size_t>(schedule.stages) * static_cast<size_t>(schedule.micro_batches);
  }

  /// `slots`: of channels. `ring`: how many micro-batches a stage has room for in each direction; 0: for all.
  RankOfPipeline(Rank& rank, const PipelineSchedule& schedule, int slots, Kernels& kernels, int ring = 0)
      : rank_(rank),
        schedule_(schedule),
        slots_(slots),
        ring_(ring == 0 ? schedule.micro_batches : ring),
        kernels_(kernels),
        stages_(schedule.stages),
        values_(schedule.stages) {
    const std::vector<int> at = schedule.rank_of_stage();
    // Both ends of a boundary name it by the stage before it.
    for (int32_t stage = 0; stage < schedule.stages; ++stage) {
      if (at[stage] != rank.rank()) continue;
      Values& of = values_[stage];
      auto* next = reinterpret_cast<float*>(rank.arena()) + size_t{kinds} * stage * schedule.micro_batches;
      for (float** const one : {&of.came, &of.made, &of.came_back, &of.given_back}) {
        *one = std::fill_n(next, schedule.micro_batches, -1.0F) - schedule.micro_batches;
        next += schedule.micro_batches;
      }
      if (stage > 0 && at[stage - 1] != rank.rank()) {
        connect(stages_[stage].forward_in, at[stage - 1], rank.rank(), 2 * (stage - 1), of.came);
        connect(stages_[stage].backward_out, rank.rank(), at[stage - 1], 2 * (stage - 1) + 1, of.given_back);
      }
      if (stage + 1 < schedule.stages && at[stage + 1] != rank.rank()) {
        connect(stages_[stage].forward_out, rank.rank(), at[stage + 1], 2 * stage, of.made);
        connect(stages_[stage].backward_in, at[stage + 1], rank.rank(), 2 * stage + 1, of.came_back);
      }
    }
    row_ = meshrt::parse_row(row_text(schedule.ranks[rank.rank()]));
  }

  void run() {
    run_row(row_, stages_, [&](const PipelineAction& action) { compute(action); });
  }

 private:
  static constexpr int kinds = 4;
  struct Values {
    float *came, *made, *came_back, *given_back;  // by micro-batch
  };

  void connect(std::vector<ChannelEnd>& ends, int from, int to, int number, float* values) {
    ends.emplace_back(rank_, meshrt::ChannelShape{from, to, number, schedule_.micro_batches, slots_},
                      meshrt::Site{-1, "value"}, meshrt::ChannelBuffers{values, sizeof(float), ring_}, 1,
                      meshrt::Type::f32);
  }

  void compute(const PipelineAction& action) {
    const int32_t stage = action.stage, one = action.micro_batch % ring_;
    Values& of = values_[stage];
    if (action.work == StageWork::forward) {
      if (stage > 0 && stages_[stage].forward_in.empty()) of.came[one] = values_[stage - 1].made[one];
      of.made[one] = kernels_.forward(stage, action.micro_batch, of.came[one]);
    } else if (action.work == StageWork::backward || action.work == StageWork::input_gradient) {
      if (stage + 1 < schedule_.stages && stages_[stage].backward_in.empty())
        of.came_back[one] = values_[stage + 1].given_back[one];
      of.given_back[one] = kernels_.backward(action.work, stage, action.micro_batch, of.came_back[one]);
    } else {
      kernels_.other(action.work);
    }
  }

  Rank& rank_;
  const PipelineSchedule& schedule_;
  int slots_, ring_;
  Kernels& kernels_;
  std::vector<StageChannels> stages_;
  std::vector<Values> values_;  // by stage
  std::vector<PipelineAction> row_;
};

}  // namespace mesh::tests
