// judge.h: what evaluations decide in a run: which checkpoint is the best one (`checkpoint.best` of the run file), and
// whether the run has stopped getting better (`train.stop`). Every rank hears the same numbers, and judges alike.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "meshrt/checkpoint.h"
#include "meshrt/program_info.h"
#include "meshrt/run_file.h"

namespace meshrt {

/// Throws Failure (Cause::data) where the run file compares evaluations by a metric that the program does not have, or
/// does not say which of its values are better.
void check_judged(const ProgramInfo& info, const RunFile& run);

class Judge {
 public:
  /// Throws what check_judged throws.
  Judge(const ProgramInfo& info, const RunFile& run);

  /// Goes on from what a checkpoint holds: what has been heard of the metrics that are compared, by the same mode.
  void resume(const Course& course);
  /// The metrics of an evaluation after `step`; one that was heard before is passed over.
  void hear(int64_t step, std::span<const double> metrics);

  /// Step after which the last evaluation was heard; -1: there is none yet.
  int64_t heard() const { return heard_; }
  /// Whether that was the best of all, by the metric of `checkpoint.best`.
  bool is_best() const { return best_ >= 0 && seen_[static_cast<size_t>(best_)].step == heard_ && heard_ >= 0; }
  /// Step of the best one; -1: there is none, or it is not asked for.
  int64_t best_step() const { return best_ < 0 ? -1 : seen_[static_cast<size_t>(best_)].step; }
  /// Whether the next evaluation may end the run.
  bool may_end() const { return stop_ >= 0 && seen_[static_cast<size_t>(stop_)].since + 1 >= patience_; }
  /// Why the run ends now; empty: it goes on.
  std::string verdict() const;

  /// What has been heard, for a checkpoint.
  Course course() const;

 private:
  int add(const ProgramInfo& info, const RunFile& run, const Judged& judged);

  std::vector<BestValue> seen_;  // of each metric and mode that is compared
  std::vector<size_t> metric_;   // its place among the program's
  int best_ = -1, stop_ = -1;    // places in seen_
  int64_t patience_ = 0, heard_ = -1;
};

}  // namespace meshrt
