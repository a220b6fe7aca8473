// checked_file.h: a schedule from a file of PyTorch's that has passed all checks, with messages about the file for what
// is wrong.
#pragma once
#include <optional>
#include <string>

#include "codegen/schedule/schedule.h"
#include "codegen/schedule/schedule_csv.h"

namespace mesh {

struct CheckedSchedule : ReadSchedule {
  int32_t slots = 1;  // receives of an edge to post ahead, where the file has none of its own
};

/// Nothing after an error: E0701 where the file cannot be read, which `asked` wants, or is no schedule, E0702 for an
/// action that is missing, stands twice or comes too early, E0703 where ranks wait for each other for ever.
std::optional<CheckedSchedule> checked_schedule(const std::string& path, Span asked, SourceMap&, DiagnosticSink&);

/// E0703 for ranks that stop in a schedule that was read.
void tell_deadlock(const ReadSchedule&, const std::vector<struct Wait>&, DiagnosticSink&);

}  // namespace mesh
