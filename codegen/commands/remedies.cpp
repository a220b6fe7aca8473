#include "codegen/commands/remedies.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "codegen/commands/plan_facts.h"
#include "codegen/program/exposed.h"
#include "codegen/way_out.h"

namespace mesh {
namespace {

constexpr size_t most_rules = 24;  // that are tried in all
constexpr size_t most_rules_of_dearest = 8, most_rules_of_another = 3;
constexpr double worth_seeking = 0.02;  // of the time of all communication
constexpr double much_less = 0.9;       // of what it sends now

/// A collective as it is found again under another layout.
struct Sameness {
  CollectiveKind kind;
  std::vector<AxisId> axes;
  std::string tensor, phase;
  bool operator==(const Sameness&) const = default;
};

Sameness sameness(const PlannedCollective& one) { return {one.kind, one.axes, one.tensor, one.phase}; }

double seconds_of(const PlannedCollective& one) { return one.seconds * static_cast<double>(one.count); }

/// The indices of those that are worth it, the dearest first; the largest is, however little time it takes.
std::vector<size_t> worth_a_remedy(const Prediction& step) {
  std::vector<size_t> order(step.collectives.size());
  std::iota(order.begin(), order.end(), 0);
  const auto seconds = [&](size_t i) { return seconds_of(step.collectives[i]); };
  const PlannedCollective* largest = largest_collective(step);
  std::erase_if(order, [&](size_t i) {
    const PlannedCollective& one = step.collectives[i];
    return volume(one) == 0 || (&one != largest && seconds(i) < worth_seeking * step.communication_seconds);
  });
  std::ranges::stable_sort(order, std::greater{}, seconds);
  return order;
}

/// The rule that brings a collective, with its dims kept whole instead; nothing where that says more than axes.
std::optional<Change> without_rule(const SourceMap& sources, Span rule) {
  if (!rule.known()) return std::nullopt;
  const std::string_view text = sources.text(rule);
  const size_t arrow = text.find("->");
  if (arrow == std::string_view::npos || text.find('{') != std::string_view::npos) return std::nullopt;
  std::string whole = std::string(text.substr(0, text.find_last_not_of(' ', arrow - 1) + 1)) + " -> none";
  return Change{rule, whole, whole, true};
}

/// Changes that may remove it, the likeliest first.
std::vector<Change> candidates(const Session& session, const Compiled& compiled, const PlannedCollective& one) {
  std::vector<Change> all = changes_for(session.request, session.sources, compiled, {one});
  if (std::optional<Change> change = without_rule(session.sources, one.rule))
    all.insert(all.begin(), std::move(*change));
  return all;
}

/// Bytes that the same collective sends in another step.
int64_t still_sent(const Prediction& other, const PlannedCollective& one) {
  int64_t bytes = 0;
  for (const PlannedCollective& there : other.collectives)
    if (sameness(there) == sameness(one)) bytes += volume(there);
  return bytes;
}

bool helps(const Remedy& remedy, const PlannedCollective& one) {
  return static_cast<double>(remedy.still) <= much_less * static_cast<double>(volume(one));
}

/// What removes it before what makes it smaller, then the faster step.
bool better(const Remedy& a, const Remedy& b) {
  return std::pair(a.still > 0, a.cost.seconds) < std::pair(b.still > 0, b.cost.seconds);
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
    for (Change& change : candidates(session, compiled, step.collectives[i])) {
      if (taken == most) break;
      ++taken;
      if (known.insert(change.shown).second) changes.push_back(std::move(change));
    }
  }
  const auto keep = [&](const Change& change, const Compiled& other) {
    const Prediction then = predict(other.program);
    const StepCost cost = step_cost(other.program, then);
    for (size_t i = 0; i < remedies.size(); ++i) {
      if (!remedies[i].sought) continue;
      const Remedy now{true, change.shown, std::string(change.replaces ? session.sources.text(change.at) : ""),
                       still_sent(then, step.collectives[i]), cost};
      if (helps(now, step.collectives[i]) && (remedies[i].rule.empty() || better(now, remedies[i]))) remedies[i] = now;
    }
  };
  try_changes(session.request, session.sources, changes, most_rules, session.sink, keep);
  return remedies;
}

}  // namespace mesh
