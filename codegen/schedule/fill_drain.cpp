// Schedules that fill the pipeline with all micro-batches before they drain it.
#include "codegen/schedule/named_schedules.h"

namespace mesh {

PipelineSchedule make_looped_bfs(const ScheduleShape& shape) {
  PipelineSchedule schedule{shape.ranks * shape.chunks, shape.micro_batches, {}};
  for (int32_t rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& actions = schedule.ranks.emplace_back();
    for (int32_t stage = rank; stage < schedule.stages; stage += shape.ranks)
      for (int32_t one = 0; one < shape.micro_batches; ++one) actions.push_back({ActionKind::forward, stage, one});
    for (int32_t stage = schedule.stages - shape.ranks + rank; stage >= 0; stage -= shape.ranks)
      for (int32_t one = 0; one < shape.micro_batches; ++one) actions.push_back({ActionKind::backward, stage, one});
  }
  return schedule;
}

PipelineSchedule make_gpipe(const ScheduleShape& shape) {
  return make_looped_bfs({shape.ranks, shape.micro_batches, 1});
}

}  // namespace mesh
