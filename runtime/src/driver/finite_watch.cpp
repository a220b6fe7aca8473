#include "driver/finite_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "meshrt/failure.h"

namespace meshrt {

FiniteWatch::FiniteWatch(const ProgramInfo& info, Nonfinite policy)
    : info_(info), policy_(policy), told_(info.metrics.size(), false) {}

std::string FiniteWatch::step(std::span<const double> metrics, int64_t step,
                              const std::function<std::string()>& before_stop) {
  std::string news;
  if (policy_ == Nonfinite::ignore) return news;
  for (size_t m = 0; m < metrics.size(); ++m) {
    if (std::isfinite(metrics[m]) || told_[m]) continue;
    const std::string what = fmt::format("`{}` is {} at step {}", info_.metrics[m], metrics[m], step);
    if (m == 0 && policy_ == Nonfinite::stop) {
      const std::string reason = before_stop();
      fail(what + "; " +
               (std::isnan(loss_) ? "it is so from the beginning"
                                  : fmt::format("after step {} it was {:.6g}", step - 1, loss_)),
           reason);
    }
    told_[m] = true;
    news += (news.empty() ? "" : "\n") + what;
  }
  if (!metrics.empty()) loss_ = metrics[0];
  return news;
}

namespace {

template <class T>
const T* first_nonfinite(const Tensor& tensor) {
  const std::span<const T> elements(static_cast<const T*>(tensor.data), static_cast<size_t>(tensor.local_elements()));
  const auto found = std::ranges::find_if_not(elements, [](T number) { return std::isfinite(number); });
  return found == elements.end() ? nullptr : &*found;
}

}  // namespace

std::string FiniteWatch::parameters(std::span<const Tensor> tensors, int64_t step) {
  if (policy_ == Nonfinite::ignore || told_of_parameters_) return "";
  for (const Tensor& tensor : tensors) {
    if (tensor.role != Role::parameter) continue;
    double number = 0;
    if (tensor.type == Type::f32) {
      if (const float* found = first_nonfinite<float>(tensor)) number = *found;
    } else if (tensor.type == Type::f64) {
      if (const double* found = first_nonfinite<double>(tensor)) number = *found;
    }
    if (std::isfinite(number)) continue;
    std::string what =
        fmt::format("`{}` holds {} after step {}, whose loss was {:.6g}", tensor.name, number, step, loss_);
    if (policy_ == Nonfinite::stop)
      fail(what + ": the update of that step made it so, and no checkpoint is written of it", "");
    told_of_parameters_ = true;
    return what;
  }
  return "";
}

void FiniteWatch::fail(const std::string& what, const std::string& reason) const {
  const bool trains = reason.empty() && !info_.sample_dim.empty();
  const std::string help = trains ? "a smaller `train.lr` or clipping may help" : reason;
  throw Failure(Cause::numeric,
                fmt::format("{}\n{}{}`log.nonfinite=ignore` goes on regardless; `meshc run SPEC --find-nonfinite` "
                            "names the value that it begins with",
                            what, help, help.empty() ? "" : "; "));
}

}  // namespace meshrt
