// named_schedules.h: the schedules that have a name, of p ranks and m micro-batches. Within a stage they all take
// micro-batches in their order in every pass, so that gradients add up in the same order under each of them.
#pragma once
#include <span>

#include "codegen/schedule/schedule.h"

namespace mesh {

struct ScheduleShape {
  int32_t ranks = 1, micro_batches = 1;
  int32_t chunks = 1;  // stages of a rank
};

struct NamedSchedule {
  const char *name, *meaning;
  int32_t chunks;     // of a rank, where nothing is said
  bool other_chunks;  // whether another number will do
  PipelineSchedule (*make)(const ScheduleShape&);
};

std::span<const NamedSchedule> named_schedules();
/// "gpipe, 1f1b, ..."
std::string names_of_schedules();
/// Null where there is none.
const NamedSchedule* find_schedule(std::string_view name);

// fill_drain.cpp
/// GPipe (arXiv 1811.06965): all forward passes, then all backward ones.
PipelineSchedule make_gpipe(const ScheduleShape&);
/// Breadth-first (arXiv 2211.05953): all micro-batches through a chunk before the rank's next one. The circular
/// pipeline of GSPMD takes them in the same order.
PipelineSchedule make_looped_bfs(const ScheduleShape&);

// one_forward_one_backward.cpp
/// PipeDream-Flush (arXiv 2006.09503).
PipelineSchedule make_1f1b(const ScheduleShape&);
/// The same with as many forward passes ahead as hide the way of a message (Alpa's overlap-friendly order).
PipelineSchedule make_eager_1f1b(const ScheduleShape&);
/// Megatron-LM (arXiv 2104.04473): rank r has the stages r, p + r, 2 p + r, ... Micro-batches go through them in rounds
/// of p, or of a little more where p does not divide m.
PipelineSchedule make_interleaved(const ScheduleShape&);

// zero_bubble.cpp, all of arXiv 2401.10241
PipelineSchedule make_zb_h1(const ScheduleShape&);
PipelineSchedule make_zb_h2(const ScheduleShape&);
/// Rank r has the stages r and 2 p - 1 - r.
PipelineSchedule make_zb_v(const ScheduleShape&);

}  // namespace mesh
