#include "codegen/layout/budget.h"

#include <algorithm>

namespace mesh {
namespace {

bool is_concerned(const Limit& limit, const PlannedCollective& one) {
  // What sends nothing, as a slice, is a movement, but no collective.
  if (!sends(one.kind) || (limit.over && !contains(one.axes, *limit.over))) return false;
  switch (limit.what) {
    case Limit::What::memory: return false;
    case Limit::What::bytes: return true;
    case Limit::What::forbidden:
      if (one.kind != limit.forbidden || (limit.of && one.of != *limit.of)) return false;
      return !limit.of_path || limit.of_path->matches(one.tensor) ||
             (one.of != ValueKind::gradient && one.of != ValueKind::optimizer && one.paths.match(*limit.of_path));
    case Limit::What::counts: return lies_under(limit.in, one.scope);
  }
  return false;
}

}  // namespace

bool allows_collectives(const std::vector<Limit>& budget, const ShardedGraph& step) {
  const Prediction prediction = predict(step);
  return std::ranges::all_of(budget, [&](const Limit& limit) {
    return limit.what == Limit::What::memory ? !limit.exactly : measure(limit, prediction, 0).holds;
  });
}

LimitState measure(const Limit& limit, const Prediction& step, int64_t peak_memory) {
  LimitState state{limit, true, 0, {}, {}};
  std::ranges::copy_if(step.collectives, std::back_inserter(state.concerned),
                       [&](const PlannedCollective& one) { return is_concerned(limit, one); });
  std::ranges::stable_sort(state.concerned, std::greater{}, volume);
  switch (limit.what) {
    case Limit::What::memory: state.at = peak_memory; break;
    case Limit::What::bytes:
      for (const PlannedCollective& one : state.concerned) state.at += volume(one);
      if (!step.messages.empty() && (!limit.over || *limit.over == step.messages.front().what.axis))
        state.at += bytes_handed_on(step);
      break;
    case Limit::What::forbidden:
    case Limit::What::counts: state.at = static_cast<int64_t>(state.concerned.size()); break;
  }
  if (limit.what == Limit::What::counts) {
    for (const auto& [kind, count] : limit.counts) state.counts[kind] = 0;
    for (const PlannedCollective& one : state.concerned) ++state.counts[one.kind];
    CollectiveCounts wanted = limit.counts;
    for (const auto& [kind, count] : state.counts) wanted.emplace(kind, 0);
    state.holds = state.counts == wanted;
  } else {
    state.holds = limit.exactly ? state.at == limit.bytes : state.at <= limit.bytes;  // of forbidden: none
  }
  return state;
}

}  // namespace mesh
