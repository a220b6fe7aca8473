// finite_watch.h: `log.nonfinite` of the run file: the first NaN or infinity among a run's metrics.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "meshrt/program.h"
#include "meshrt/run_file.h"

namespace meshrt {

class FiniteWatch {
 public:
  FiniteWatch(const ProgramInfo& info, Nonfinite policy);

  /// After a step: which metrics are not finite for the first time, for the log; empty: none. Throws Failure
  /// (Cause::numeric), after calling `before_stop`, when the loss (the first metric) is not and the policy is to stop.
  std::string step(std::span<const double> metrics, int64_t step, const std::function<void()>& before_stop);

 private:
  [[noreturn]] void fail(const std::string& what, int64_t step) const;

  const ProgramInfo& info_;
  Nonfinite policy_;
  std::vector<bool> told_;  // of each metric
  double loss_ = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace meshrt
