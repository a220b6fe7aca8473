// schedule_question.h: which schedule a command line asks for, and what its actions cost.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/schedule/lower_schedule.h"
#include "codegen/schedule/named_schedules.h"
#include "codegen/schedule/simulate.h"
#include "frontend/diagnostic.h"

namespace mesh {

struct ScheduleArguments {
  std::string what;                                  // a name or a file of PyTorch's; empty where all are compared
  int32_t ranks = 0, micro_batches = 0, chunks = 0;  // 0: not given
  std::vector<std::string> costs;                    // "F=1", "I=1:1:1:2"
  Remat remat = Remat::none;
};

struct AskedSchedule {
  std::string name;
  PipelineSchedule schedule;
  int32_t slots;  // receives of an edge to post ahead
};

/// The named schedule. UsageError where numbers are missing or do not fit.
AskedSchedule make_named(const NamedSchedule&, const ScheduleArguments&);
/// The name's, or the file's after it has passed all checks; nothing after an error. UsageError as above.
std::optional<AskedSchedule> find_asked(const ScheduleArguments&, SourceMap&, DiagnosticSink&);

/// UsageError for what is no cost, and where a list is not one for each rank.
ScheduleCosts parse_costs(const std::vector<std::string>& texts, size_t ranks);

}  // namespace mesh
