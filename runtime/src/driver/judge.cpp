#include "driver/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "system/suggest.h"

namespace meshrt {

namespace {

/// The place of the metric among those of the program.
size_t metric_of(const ProgramInfo& info, const RunFile& run, const Judged& judged) {
  if (info.metrics.empty())
    throw run.error(judged.mark, fmt::format("`{}` has no metric to compare evaluations by", info.name),
                    "`metric m = ...` in the model makes one");
  if (!judged.metric.given()) return 0;
  const auto found = std::ranges::find(info.metrics, judged.metric.value);
  if (found == info.metrics.end())
    throw run.error(judged.metric.mark, fmt::format("`{}` has no metric `{}`", info.name, judged.metric.value),
                    suggestion(judged.metric.value, info.metrics, "metrics"));
  if (found != info.metrics.begin() && !judged.largest.given())
    throw run.error(judged.metric.mark, fmt::format("which values of `{}` are better?", judged.metric.value),
                    "`mode: max`, the large ones, or `mode: min`");
  return static_cast<size_t>(found - info.metrics.begin());
}

bool is_better(const BestValue& best, double value) {
  if (!std::isfinite(value)) return false;
  return best.step < 0 || (best.largest ? value > best.value : value < best.value);
}

bool same_measure(const BestValue& one, const BestValue& other) {
  return one.metric == other.metric && one.largest == other.largest;
}

}  // namespace

void check_judged(const ProgramInfo& info, const RunFile& run) {
  for (const Judged* judged : {&run.checkpoint.best, static_cast<const Judged*>(&run.train.stop)})
    if (judged->given()) metric_of(info, run, *judged);
}

Judge::Judge(const ProgramInfo& info, const RunFile& run) : patience_(run.train.stop.patience.value) {
  best_ = add(info, run, run.checkpoint.best);
  stop_ = add(info, run, run.train.stop);
}

int Judge::add(const ProgramInfo& info, const RunFile& run, const Judged& judged) {
  if (!judged.given()) return -1;
  const size_t metric = metric_of(info, run, judged);
  const BestValue fresh{.metric = info.metrics[metric], .largest = judged.largest.value};
  const auto known = std::ranges::find_if(seen_, [&](const BestValue& one) { return same_measure(one, fresh); });
  if (known != seen_.end()) return static_cast<int>(known - seen_.begin());
  seen_.push_back(fresh);
  metric_.push_back(metric);
  return static_cast<int>(seen_.size()) - 1;
}

void Judge::resume(const Course& course) {
  heard_ = course.evaluated;
  for (BestValue& one : seen_)
    for (const BestValue& before : course.best)
      if (same_measure(one, before)) one = before;
}

void Judge::hear(int64_t step, std::span<const double> metrics) {
  if (step <= heard_) return;
  heard_ = step;
  for (size_t i = 0; i < seen_.size(); ++i) {
    BestValue& best = seen_[i];
    const double value = metrics[metric_[i]];
    const bool better = is_better(best, value);
    best.since = better ? 0 : best.since + 1;
    if (better) best.value = value, best.step = step;
  }
}

std::string Judge::verdict() const {
  if (stop_ < 0) return "";
  const BestValue& best = seen_[static_cast<size_t>(stop_)];
  if (best.since < patience_) return "";
  const std::string since = fmt::format("{} evaluation{}", best.since, best.since == 1 ? "" : "s");
  if (best.step < 0) return fmt::format("`{}` was not finite in {}", best.metric, since);
  return fmt::format("`{}` was best, {}, after step {}, and {} since {} no better", best.metric, best.value, best.step,
                     since, best.since == 1 ? "was" : "were");
}

Course Judge::course() const {
  Course course;
  course.evaluated = heard_;
  course.best = seen_;
  return course;
}

}  // namespace meshrt
