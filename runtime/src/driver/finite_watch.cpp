#include "driver/finite_watch.h"

#include <fmt/format.h>

#include <cmath>

#include "meshrt/failure.h"

namespace meshrt {

FiniteWatch::FiniteWatch(const ProgramInfo& info, Nonfinite policy)
    : info_(info), policy_(policy), told_(info.metrics.size(), false) {}

std::string FiniteWatch::step(std::span<const double> metrics, int64_t step, const std::function<void()>& before_stop) {
  std::string news;
  if (policy_ == Nonfinite::ignore) return news;
  for (size_t m = 0; m < metrics.size(); ++m) {
    if (std::isfinite(metrics[m]) || told_[m]) continue;
    const std::string what = fmt::format("`{}` is {} at step {}", info_.metrics[m], metrics[m], step);
    if (m == 0 && policy_ == Nonfinite::stop) {
      before_stop();
      fail(what, step);
    }
    told_[m] = true;
    news += (news.empty() ? "" : "\n") + what;
  }
  if (!metrics.empty()) loss_ = metrics[0];
  return news;
}

void FiniteWatch::fail(const std::string& what, int64_t step) const {
  const std::string history =
      std::isnan(loss_) ? "it is so from the beginning" : fmt::format("after step {} it was {:.6g}", step - 1, loss_);
  const char* help = info_.sample_dim.empty() ? "" : "a smaller `train.lr` or clipping may help; ";
  throw Failure(Cause::numeric,
                fmt::format("{}; {}\n{}`log.nonfinite=ignore` goes on regardless; `meshc run SPEC --find-nonfinite` "
                            "names the value that it begins with",
                            what, history, help));
}

}  // namespace meshrt
