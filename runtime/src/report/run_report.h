// run_report.h: a run as its folder will show it: makes the folder, measures the steps, writes trace and summary.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "meshrt/driver.h"
#include "report/flight_recorder.h"
#include "report/trace.h"
#include "system/folder_lock.h"

namespace meshrt {

class RunReport {
 public:
  /// `resumed`: steps done by earlier runs. Collective. Throws Failure: environment (the folder cannot be made), data
  /// (a trace is asked for, but has no place to go).
  RunReport(Rank& rank, const ProgramInfo& info, const RunFile& run, const DriverOptions& options, int64_t resumed);

  /// Of the run, the same on every rank; empty: none.
  const std::string& folder() const { return folder_; }

  /// Where rank 0 has moved what an earlier run had left in the folder, in words; empty: there was none.
  const std::string& set_aside() const { return set_aside_; }

  /// Why no other run is kept out of the folder, in words; empty: it is locked, or this is not rank 0.
  const std::string& unlocked() const { return lock_.problem(); }

  /// Runs the steps: should they fail, the flight recorder keeps why, and the folder's log.
  void watch(const std::function<void()>& steps);
  /// Runs a step and measures it.
  StepProfile step(int64_t step, const std::function<void()>& run);
  /// After every step: news for the log, if there are any. Collective.
  std::string after(int64_t step);
  /// At the end: what is to be told, a line each; `copies` are bytes of tensors that checkpoints are written from. A
  /// file that cannot be written is told at once, and fails no run. Collective.
  std::vector<std::string> finish(int64_t copies);

 private:
  std::string make_folder(const RunFile& run, const DriverOptions& options);
  std::string trace_news() const;
  std::string plan() const;

  Rank& rank_;
  const ProgramInfo& info_;
  bool profiled_;
  LineCosts lines_;
  int64_t resumed_;
  FolderLock lock_;
  std::string set_aside_;
  std::string folder_, program_folder_;
  bool launched_;  // by a process that tells how the run ends
  FlightRecorder flight_;
  std::optional<Trace> trace_;
  double seconds_ = 0;  // of all steps but the first
  int64_t steps_ = 0;
  int64_t sent_ = 0;  // bytes, in the last step that was counted
};

}  // namespace meshrt
