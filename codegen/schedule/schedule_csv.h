// schedule_csv.h: schedules as PyTorch writes them in files: a line a rank, a cell an action, an empty cell where the
// rank waits. Lists of computations alone, or with communication.
#pragma once
#include "codegen/schedule/schedule.h"
#include "frontend/diagnostic.h"

namespace mesh {

struct ReadSchedule {
  PipelineSchedule schedule;
  std::vector<std::vector<Span>> places;  // of its actions
  std::vector<Span> lines;                // of its ranks
};

/// Nothing after an error. Two actions that PyTorch overlaps, "(0F7;7B3)OVERLAP_F_B", come one after the other; in
/// older files with BW for a whole backward pass, B is I.
std::optional<ReadSchedule> read_schedule(FileId, const SourceMap&, DiagnosticSink&);

std::string to_csv(const PipelineSchedule&);

}  // namespace mesh
