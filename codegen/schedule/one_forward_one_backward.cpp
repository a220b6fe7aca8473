// Schedules that run some forward passes ahead, then one backward pass for each forward one.
#include <algorithm>

#include "codegen/schedule/named_schedules.h"

namespace mesh {

namespace {

using Actions = std::vector<Action>;

/// `ahead` forward passes, then one of each in turn, then what is left of the backward passes.
Actions alternate(const Actions& forward, const Actions& backward, size_t ahead) {
  ahead = std::min(ahead, forward.size());
  Actions actions(forward.begin(), forward.begin() + static_cast<int64_t>(ahead));
  for (size_t k = 0; k < backward.size(); ++k) {
    if (ahead + k < forward.size()) actions.push_back(forward[ahead + k]);
    actions.push_back(backward[k]);
  }
  return actions;
}

Actions passes(ActionKind kind, int32_t stage, int32_t micro_batches) {
  Actions actions;
  for (int32_t one = 0; one < micro_batches; ++one) actions.push_back({kind, stage, one});
  return actions;
}

/// Rank r runs `hops` forward passes ahead for each rank behind it.
PipelineSchedule one_stage_a_rank(const ScheduleShape& shape, int32_t hops) {
  PipelineSchedule schedule{shape.ranks, shape.micro_batches, {}};
  for (int32_t rank = 0; rank < shape.ranks; ++rank)
    schedule.ranks.push_back(alternate(passes(ActionKind::forward, rank, shape.micro_batches),
                                       passes(ActionKind::backward, rank, shape.micro_batches),
                                       static_cast<size_t>(hops) * (shape.ranks - 1 - rank)));
  return schedule;
}

/// First micro-batches of rounds, and their number at the end: as many rounds as have p micro-batches at least, the
/// first ones longer by one where they cannot be equal.
std::vector<int32_t> rounds_of(const ScheduleShape& shape) {
  const int32_t count = std::max(1, shape.micro_batches / shape.ranks);
  std::vector<int32_t> begins{0};
  for (int32_t round = 0; round < count; ++round)
    begins.push_back(begins.back() + shape.micro_batches / count + (round < shape.micro_batches % count ? 1 : 0));
  return begins;
}

}  // namespace

PipelineSchedule make_1f1b(const ScheduleShape& shape) { return one_stage_a_rank(shape, 1); }

PipelineSchedule make_eager_1f1b(const ScheduleShape& shape) { return one_stage_a_rank(shape, 2); }

PipelineSchedule make_interleaved(const ScheduleShape& shape) {
  const std::vector<int32_t> rounds = rounds_of(shape);
  PipelineSchedule schedule{shape.ranks * shape.chunks, shape.micro_batches, {}};
  for (int32_t rank = 0; rank < shape.ranks; ++rank) {
    Actions forward, backward;
    for (size_t round = 0; round + 1 < rounds.size(); ++round)
      for (int32_t chunk = 0; chunk < shape.chunks; ++chunk)
        for (int32_t one = rounds[round]; one < rounds[round + 1]; ++one) {
          forward.push_back({ActionKind::forward, chunk * shape.ranks + rank, one});
          backward.push_back({ActionKind::backward, (shape.chunks - 1 - chunk) * shape.ranks + rank, one});
        }
    const int32_t ahead = 2 * (shape.ranks - 1 - rank) + (shape.chunks - 1) * rounds[1];
    schedule.ranks.push_back(alternate(forward, backward, ahead));
  }
  return schedule;
}

}  // namespace mesh
