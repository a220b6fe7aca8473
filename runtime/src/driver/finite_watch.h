// finite_watch.h: `log.nonfinite` of the run file: the first NaN or infinity among a run's metrics, and in the
// parameters that it would keep.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "meshrt/program_info.h"
#include "meshrt/run_file.h"
#include "meshrt/tensor.h"

namespace meshrt {

class FiniteWatch {
 public:
  FiniteWatch(const ProgramInfo& info, Nonfinite policy);

  /// After a step: which metrics are not finite for the first time, for the log; empty: none. Throws Failure
  /// (Cause::numeric) when the loss (the first metric) is not and the policy is to stop, after calling `before_stop`,
  /// which gives the reason, if it is in the data.
  std::string step(std::span<const double> metrics, int64_t step, const std::function<std::string()>& before_stop);

  /// Before parameters are kept, or a run ends with them: a finite loss may have had a gradient that was not. Looks at
  /// this rank's elements. What the log is to say, once; empty: all is well. Throws Failure (Cause::numeric) when the
  /// policy is to stop.
  std::string parameters(std::span<const Tensor> tensors, int64_t step);

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& reason) const;

  const ProgramInfo& info_;
  Nonfinite policy_;
  std::vector<bool> told_;  // of each metric
  bool told_of_parameters_ = false;
  double loss_ = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace meshrt
