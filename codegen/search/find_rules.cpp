#include "codegen/search/find_rules.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace mesh {
namespace {

constexpr double same_time = 1e-9;      // of two steps, relative
constexpr double worth_a_rule = 1e-2;   // of a step's time: predictions are no surer
constexpr double worth_in_room = 5e-2;  // of a rank's memory, where the time is nearly the same
constexpr double share_of_all = 0.45;   // of the work, for going through a whole space
constexpr double share_of_pairs = 0.2;  // which dims may share an axis
constexpr double share_of_seeds = 0.4;  // the first sets, axis by axis
constexpr size_t least_compiled = 3;    // of what estimates say is best, whatever work was done
constexpr size_t beam = 5, rounds_in_vain = 2, most_compiled = 20, most_neighbours = 12, sets_in_vain = 4;

/// By what sets of rules are compared: memory that is missing, then time but for its last digits, then how much there
/// is to read.
struct Score {
  int64_t excess;
  double seconds;
  FoundRules rules;
  std::pair<int64_t, double> cost() const { return {excess, seconds}; }
  size_t words() const {
    size_t all = rules.size();
    for (const FoundRule& rule : rules) all += rule.unless.size() + rule.attributes.size() + rule.axes.size();
    return all;
  }
  bool operator<(const Score& other) const {
    if (excess != other.excess) return excess < other.excess;
    const auto about = static_cast<float>(seconds), others = static_cast<float>(other.seconds);
    if (about != others) return about < others;
    if (words() != other.words()) return words() < other.words();
    return rules < other.rules;
  }
};

/// The best first; of those that cost exactly the same, as the same placements do and those with axes exchanged, the
/// two with least to read.
std::vector<Score> without_alikes(std::vector<Score> scores) {
  constexpr int most_alike = 2;
  std::sort(scores.begin(), scores.end());
  std::map<std::pair<int64_t, double>, int> alike;
  std::erase_if(scores, [&](const Score& score) { return ++alike[score.cost()] > most_alike; });
  return scores;
}

class Search {
 public:
  Search(Trials& trials, const Choices& choices, std::optional<int64_t> memory, int64_t work)
      : trials_(trials), choices_(choices), memory_(memory), work_(work) {}

  std::optional<FoundSet> run() {
    compile({});
    const double cost = static_cast<double>(std::max<int64_t>(trials_.nodes(), 1) * Trials::steps_of_outcome);
    bool all = choices_.count() * cost < share_of_all * static_cast<double>(work_);
    if (all) {
      go_through({}, 0);
      all = !spent();
    } else {
      for (const FoundRule& usual : choices_.of_samples()) compile({usual});  // what people write first
      spread(choices_.slots(), {{}});
      climb(choices_.slots());
    }
    if (best_ && best_->excess > 0) save_memory();
    if (!best_) return {};
    if (best_->excess == 0) try_savings(best_->rules);
    if (best_->excess == 0) make_room();
    all = all && faster_without_room().empty();
    return FoundSet{best_->rules, *trials_.outcome(best_->rules), best_->excess == 0, all && best_->excess == 0};
  }

 private:
  bool spent(double share = 1) const {
    return static_cast<double>(trials_.work()) > share * static_cast<double>(work_);
  }

  int64_t excess(int64_t bytes) const { return memory_ ? std::max<int64_t>(0, bytes - *memory_) : 0; }

  std::optional<Score> estimate(const FoundRules& rules) {
    const std::optional<Estimate> seen = trials_.estimate(rules);
    if (!seen) return {};
    Score score{excess(seen->stored), seen->seconds, rules};
    if (looked_at_.insert(rules).second) estimates_.push_back(score);
    return score;
  }

  /// Whether it is the best so far.
  bool compile(const FoundRules& rules) {
    const Outcome* outcome = trials_.outcome(rules);
    if (!outcome) return false;
    Score score{excess(outcome->memory), outcome->seconds, rules};
    compiled_.insert(score);
    if (best_ && !(score < *best_)) return false;
    best_ = std::move(score);
    return true;
  }

  /// Whether it, or the same dealt otherwise, is the best so far.
  bool compile_dealt(const FoundRules& rules) {
    bool better = compile(rules);
    for (const FoundRules& way : trials_.dealt(rules)) better = compile(way) || better;
    return better;
  }

  /// All sets that are made of a rule of each slot, or none.
  void go_through(const FoundRules& rules, size_t slot) {
    if (spent()) return;
    if (slot == choices_.slots().size()) {
      compile_dealt(rules);
      return;
    }
    go_through(rules, slot + 1);
    for (const FoundRule& choice : choices_.slots()[slot].choices)
      for (const FoundRules& way : choices_.with(rules, choice)) go_through(way, slot + 1);
  }

  std::vector<FoundRules> changes_of(const FoundRules& rules, const std::vector<Slot>& slots) const {
    std::vector<FoundRules> all;
    for (const Slot& slot : slots) {
      if (FoundRules less = choices_.without(rules, slot); less != rules) all.push_back(std::move(less));
      for (const FoundRule& choice : slot.choices)
        for (FoundRules& way : choices_.with(rules, choice)) all.push_back(std::move(way));
    }
    return all;
  }

  /// Dims that may share an axis: each as the first, then whatever goes with those before it.
  std::vector<std::vector<std::string>> groups(const std::string& axis) {
    std::vector<FoundRule> single;
    for (const Slot& slot : choices_.slots())
      for (const FoundRule& rule : slot.choices)
        if (slot.scope.empty() && rule.axes == std::vector{axis} && rule.attributes.empty()) single.push_back(rule);
    std::map<std::pair<size_t, size_t>, bool> together;
    for (size_t a = 0; a < single.size(); ++a)
      for (size_t b = a + 1; b < single.size(); ++b)
        together[{a, b}] = !spent(share_of_pairs) && trials_.legal({single[a], single[b]});
    std::set<std::vector<size_t>> found;
    for (size_t first = 0; first < single.size(); ++first) {
      std::vector<size_t> group{first};
      for (size_t other = 0; other < single.size(); ++other)
        if (other != first && std::ranges::all_of(group, [&](size_t one) {
              return together[{std::min(one, other), std::max(one, other)}];
            }))
          group.push_back(other);
      std::ranges::sort(group);
      found.insert(group);
      found.insert({first});
    }
    std::vector<std::vector<std::string>> names;
    for (const std::vector<size_t>& group : found) {
      names.emplace_back();
      for (const size_t one : group) names.back().push_back(single[one].dim_text());
    }
    return names;
  }

  /// From how many sets the seeds of one axis go on to the next: as many as their share of the work allows.
  size_t seeds_to_go_on_from(const std::vector<std::vector<std::vector<std::string>>>& groups) const {
    size_t later = 0;
    for (size_t axis = 1; axis < groups.size(); ++axis) later += groups[axis].size() + 1;
    if (later == 0) return 2 * beam;
    const auto first = static_cast<double>(groups[0].size() + 1);
    const double most = share_of_seeds * static_cast<double>(work_) / static_cast<double>(trials_.work_of_estimate());
    return static_cast<size_t>(std::clamp((most - first) / static_cast<double>(later), 1.0, 2.0 * beam));
  }

  /// Axis by axis, what a group of dims makes of it.
  std::vector<FoundRules> seeds() {
    std::vector<std::vector<std::vector<std::string>>> groups_of;  // by axis
    for (const std::string& axis : choices_.axes()) groups_of.push_back(groups(axis));
    const size_t most = seeds_to_go_on_from(groups_of);
    std::vector<FoundRules> made{{}};
    for (size_t at = 0; at < groups_of.size(); ++at) {
      const std::string& axis = choices_.axes()[at];
      std::vector<Score> longer;
      for (const FoundRules& rules : made) {
        if (const auto score = estimate(rules)) longer.push_back(*score);
        for (const std::vector<std::string>& group : groups_of[at]) {
          if (spent(share_of_seeds)) break;
          FoundRules more = rules;
          for (const Slot& slot : choices_.slots()) {
            if (!slot.scope.empty()) continue;
            for (const FoundRule& choice : slot.choices) {
              if (!choice.attributes.empty() || std::ranges::find(group, choice.dim_text()) == group.end()) continue;
              const auto had =
                  std::ranges::find_if(rules, [&](const FoundRule& one) { return one.same_place(choice); });
              std::vector<std::string> axes = had == rules.end() ? std::vector<std::string>{} : had->axes;
              axes.push_back(axis);
              if (choice.axes == axes) more = choices_.with(more, choice).front();
            }
          }
          if (const auto score = estimate(more)) longer.push_back(*score);
        }
      }
      made.clear();
      for (const Score& score : without_alikes(std::move(longer)))
        if (made.size() < (at + 1 < groups_of.size() ? most : 2 * beam)) made.push_back(score.rules);
    }
    return made;
  }

  /// Estimates of all changes of the best sets, then of the best of these, and so on.
  void spread(const std::vector<Slot>& slots, std::vector<FoundRules> from) {
    std::vector<Score> front;
    for (const FoundRules& rules : from.size() == 1 && from.front().empty() ? seeds() : std::move(from))
      if (const auto score = estimate(rules)) front.push_back(*score);
    front = without_alikes(std::move(front));
    std::set<std::pair<int64_t, double>> costs;  // of what was gone on from
    std::optional<Score> least = front.empty() ? std::nullopt : std::optional(front.front());
    for (size_t vain = 0; vain < rounds_in_vain && !front.empty() && !spent(0.5);) {
      std::vector<Score> next;
      std::set<FoundRules> there;
      if (front.size() > beam) front.resize(beam);
      for (const Score& score : front) costs.insert(score.cost());
      for (const Score& score : front)
        for (const FoundRules& change : changes_of(score.rules, slots)) {
          if (spent(0.5)) break;
          if (looked_at_.contains(change) || !there.insert(change).second) continue;
          if (auto found = estimate(change)) next.push_back(std::move(*found));
        }
      next = without_alikes(std::move(next));
      std::erase_if(next, [&](const Score& score) { return costs.contains(score.cost()); });
      const bool better = !next.empty() && (!least || next.front() < *least);
      if (better) least = next.front();
      vain = better ? 0 : vain + 1;
      front = std::move(next);
    }
  }

  /// What estimates say is best is compiled; then what lies around the best of that, and around the next best, until
  /// several of them in a row lead to nothing better.
  void climb(const std::vector<Slot>& slots) {
    const std::vector<Score> promising = without_alikes(estimates_);
    for (size_t i = 0; i < std::min(promising.size(), most_compiled) && (i < least_compiled || !spent()); ++i)
      compile_dealt(promising[i].rules);
    std::vector<std::vector<Placement>> gone_around;
    for (size_t vain = 0; vain < sets_in_vain && !spent();) {
      const auto next = std::ranges::find_if(compiled_, [&](const Score& score) {
        return std::ranges::find(gone_around, trials_.outcome(score.rules)->placements) == gone_around.end();
      });
      if (next == compiled_.end()) return;
      gone_around.push_back(trials_.outcome(next->rules)->placements);
      vain = go_around(next->rules, slots) ? 0 : vain + 1;
    }
  }

  /// Compiles those changes of one rule that estimates say are best. Whether one is the best so far.
  bool go_around(const FoundRules& rules, const std::vector<Slot>& slots) {
    bool better = false;
    std::vector<Score> around;
    for (const FoundRules& change : changes_of(rules, slots)) {
      if (spent()) break;
      if (auto score = estimate(change)) around.push_back(std::move(*score));
    }
    around = without_alikes(std::move(around));
    for (size_t i = 0; i < std::min(around.size(), most_neighbours) && !spent(); ++i)
      better = compile_dealt(around[i].rules) || better;
    return better;
  }

  /// Micro-batches, turns computed again and split gradients on top of what needs least.
  void save_memory() {
    std::vector<Slot> slots = choices_.savings();
    slots.insert(slots.end(), choices_.slots().begin(), choices_.slots().end());
    for (bool better = true; better && best_->excess > 0 && !spent(2);) {
      better = false;
      const FoundRules from = best_->rules;
      for (const FoundRules& change : changes_of(from, slots)) {
        if (spent(2)) break;
        better = compile(change) || better;
      }
    }
    if (best_->excess == 0) climb(slots);
  }

  /// What has no room may have it with a saving, and take less time than what has it without.
  void make_room() {
    std::vector<std::pair<double, FoundRules>> faster = faster_without_room();
    if (faster.size() > beam) faster.resize(beam);
    for (const auto& [seconds, rules] : faster) try_savings(rules);
  }

  /// What was compiled, would take less time and need more memory than there is; the fastest first.
  std::vector<std::pair<double, FoundRules>> faster_without_room() const {
    std::vector<std::pair<double, FoundRules>> faster;
    for (const Score& score : compiled_)
      if (score.excess > 0 && score.seconds < best_->seconds) faster.emplace_back(score.seconds, score.rules);
    std::sort(faster.begin(), faster.end());
    return faster;
  }

  /// What saves memory may save time too. Gradients in parts want moments in the same parts.
  void try_savings(const FoundRules& from) {
    for (const FoundRules& change : changes_of(from, choices_.savings())) {
      if (spent(1.2)) return;
      compile(change);
      for (const FoundRule& rule : change) {
        if (rule.scope != "grads") continue;
        FoundRule moments = rule;
        moments.scope = "optimizer";
        for (const FoundRules& way : choices_.with(change, moments)) compile(way);
      }
    }
  }

  Trials& trials_;
  const Choices& choices_;
  const std::optional<int64_t> memory_;
  const int64_t work_;
  std::vector<Score> estimates_;
  std::set<Score> compiled_;
  std::set<FoundRules> looked_at_;
  std::optional<Score> best_;
};

}  // namespace

std::optional<FoundSet> find_rules(Trials& trials, const Choices& choices, std::optional<int64_t> memory,
                                   int64_t work) {
  return Search(trials, choices, memory, work).run();
}

FoundSet smallest(Trials& trials, std::optional<int64_t> memory, FoundSet found) {
  const double best = found.outcome.seconds, room = static_cast<double>(found.outcome.memory) * (1 + worth_in_room);
  const auto as_good = [&](const FoundRules& rules) {
    const Outcome* other = trials.outcome(rules);
    if (other == nullptr) return false;
    if (other->placements == found.outcome.placements) return true;
    const bool fits = !memory || other->memory <= std::max(*memory, found.outcome.memory);
    const bool needs_more = static_cast<double>(other->memory) > room;
    const double worse = found.proved || needs_more ? same_time : worth_a_rule;
    return fits && other->seconds <= best * (1 + worse);
  };
  const auto take = [&](FoundRules rules) {
    found.outcome = *trials.outcome(rules);
    found.rules = std::move(rules);
  };
  const auto without = [](FoundRules rules, size_t i) {
    rules.erase(rules.begin() + static_cast<std::ptrdiff_t>(i));
    return rules;
  };
  for (size_t i = found.rules.size(); i-- > 0;)
    if (FoundRules less = without(found.rules, i); as_good(less)) take(std::move(less));
  // Of two that are worth nothing together each may be worth something beside the other, as split gradients are beside
  // split moments.
  for (size_t i = found.rules.size(); i-- > 1;)
    for (size_t j = i; j-- > 0 && i < found.rules.size();)
      if (FoundRules less = without(without(found.rules, i), j); as_good(less)) take(std::move(less));
  FoundRules in_blocks = found.rules;
  for (FoundRule& rule : in_blocks)
    std::erase_if(rule.attributes, [](const auto& attribute) { return attribute.first == "owns"; });
  if (in_blocks != found.rules && as_good(in_blocks)) take(std::move(in_blocks));
  for (size_t i = 0; i < found.rules.size(); ++i)
    for (size_t word = found.rules[i].unless.size(); word-- > 0;) {
      FoundRules less = found.rules;
      less[i].unless.erase(less[i].unless.begin() + static_cast<std::ptrdiff_t>(word));
      if (as_good(less)) take(std::move(less));
    }
  return found;
}

}  // namespace mesh
