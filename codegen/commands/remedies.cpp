#include "codegen/commands/remedies.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "codegen/program/combine.h"
#include "codegen/way_out.h"

namespace mesh {
namespace {

constexpr size_t most_rules = 24;  // that are tried in all
constexpr size_t most_rules_of_dearest = 8, most_rules_of_another = 3;
constexpr double worth_seeking = 0.02;  // of the time of all communication

/// A collective as it is found again under another layout.
struct Sameness {
  CollectiveKind kind;
  std::vector<AxisId> axes;
  std::string tensor, phase;
  bool operator==(const Sameness&) const = default;
};

Sameness sameness(const PlannedCollective& one) { return {one.kind, one.axes, one.tensor, one.phase}; }

double seconds_of(const PlannedCollective& one) { return one.seconds * static_cast<double>(one.count); }

/// The indices of those that are worth it, the dearest first.
std::vector<size_t> worth_a_remedy(const Prediction& step) {
  std::vector<size_t> order(step.collectives.size());
  std::iota(order.begin(), order.end(), 0);
  const auto seconds = [&](size_t i) { return seconds_of(step.collectives[i]); };
  std::erase_if(order, [&](size_t i) {
    return volume(step.collectives[i]) == 0 || seconds(i) < worth_seeking * step.communication_seconds;
  });
  std::ranges::stable_sort(order, std::greater{}, seconds);
  return order;
}

}  // namespace

std::vector<Remedy> remedies_of(const Session& session, const Compiled& compiled, const Prediction& step) {
  std::vector<Remedy> remedies(step.collectives.size());
  if (compiled.found) return remedies;
  std::vector<Change> changes;
  std::set<std::string> known;
  const std::vector<size_t> order = worth_a_remedy(step);
  for (const size_t i : order) {
    if (changes.size() >= most_rules) break;
    remedies[i].sought = true;
    size_t taken = 0, most = i == order.front() ? most_rules_of_dearest : most_rules_of_another;
    for (Change& change : changes_for(session.request, session.sources, compiled, {step.collectives[i]})) {
      if (taken == most) break;
      ++taken;
      if (known.insert(change.shown).second) changes.push_back(std::move(change));
    }
  }
  const auto keep = [&](const Change& change, const Compiled& other) {
    const Prediction then = predict(other.sharded(), calls_of_reshards(other.program));
    const StepCost cost = step_cost(other.sharded(), other.program);
    for (size_t i = 0; i < remedies.size(); ++i) {
      Remedy& remedy = remedies[i];
      const Sameness wanted = sameness(step.collectives[i]);
      const bool better = remedy.rule.empty() || cost.seconds < remedy.cost.seconds;
      if (!remedy.sought || !better || std::ranges::find(then.collectives, wanted, sameness) != then.collectives.end())
        continue;
      remedy = {true, change.shown, change.replaces, cost};
    }
  };
  try_changes(session.request, session.sources, changes, most_rules, session.sink, keep);
  return remedies;
}

}  // namespace mesh
