// check_schedule.h: whether every micro-batch goes through every stage once in each direction, in an order that one
// rank can follow. Whether the ranks then wait for each other for ever is asked of progress.h.
#pragma once
#include <string>

#include "codegen/schedule/schedule.h"

namespace mesh {

struct ScheduleMistake {
  std::string message;
  int rank = -1;                 // in whose list; -1: of no particular one
  std::optional<size_t> action;  // place in that list; nothing: something is missing from it
};

/// All of them, by rank and place, what is missing last.
std::vector<ScheduleMistake> check_schedule(const PipelineSchedule&);

}  // namespace mesh
