// trace.h: `log.trace` of the run file: what every rank did in chosen steps, as one file in Chrome's trace format,
// which Perfetto (ui.perfetto.dev) and chrome://tracing show. A process there is a rank; one of its tracks holds steps,
// products, attention, nests and collectives, another the time in which the rank waited for others, a third the
// actions of a pipeline's row.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "meshrt/profile.h"
#include "meshrt/program_info.h"
#include "meshrt/rank.h"
#include "meshrt/run_file.h"

namespace meshrt {

class Trace {
 public:
  /// Of the steps that `range` names, into the file `path` (rank 0 writes it).
  Trace(Rank& rank, const ProgramInfo& info, const StepRange& range, std::string path);

  /// Where the events of `step` go; null: it is not traced.
  std::vector<TraceEvent>* events_of(int64_t step);
  /// After every step. Returns true on rank 0 when the file was written; one that cannot be is told. Collective, as
  /// finish is.
  bool after(int64_t step);
  /// Writes what there is when the run ends before the last of the steps.
  bool finish();

  const std::string& path() const { return path_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::string own_events(double clock_ahead) const;

  Rank& rank_;
  const ProgramInfo& info_;
  StepRange range_;
  std::string path_;
  struct Step {
    int64_t number;
    std::vector<TraceEvent> events;
  };
  std::vector<Step> steps_;
};

}  // namespace meshrt
