// refine.cpp: places a graph several times, and keeps what costs least. A try is one walk under some Decisions
// (decisions.h); read `run` and `improve` first, which say what is tried in which order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>

#include "codegen/graph/verify_graph.h"
#include "codegen/layout/complete_in_turns.h"
#include "codegen/layout/label_added.h"
#include "codegen/layout/place.h"
#include "codegen/layout/placer.h"
#include "codegen/layout/predict.h"
#include "codegen/layout/wishes.h"
#include "codegen/rewrites/reassociate.h"

namespace mesh {
namespace {

/// What tries are compared by, before a program is made of them.
struct PlacedCost {
  double seconds = 0, communication = 0;
  int64_t bytes = 0;
  explicit PlacedCost(const ShardedGraph& placed) {
    const Prediction predicted = predict(placed);
    communication = predicted.communication_seconds - predicted.hidden_seconds;
    seconds = predicted.compute_seconds + communication;
    for (const PlannedCollective& one : predicted.collectives) bytes += volume(one);
  }
};

/// Calls `differs` with what only one of two maps has, or each has otherwise.
template <class Map, class Differs>
void for_each_difference(const Map& one, const Map& other, const Differs& differs) {
  for (const auto& [key, value] : one)
    if (const auto at = other.find(key); at == other.end() || at->second != value) differs(key, value);
  for (const auto& [key, value] : other)
    if (!one.contains(key)) differs(key, value);
}

class Refiner {
 public:
  Refiner(std::shared_ptr<GraphFacts> graph, const Layout& layout)
      : facts_(std::make_shared<LayoutFacts>(std::move(graph), layout)),
        best_(*facts_, decisions_, EarlierChoices{}),
        cost_(best_.graph) {}

  /// Twice, for ops may split what nobody asks for or not: that helps here and leads astray there.
  ShardedGraph run() {
    if (best_.graph.movements.empty()) return placed(decisions_);
    if (graph().nodes.size() > most_nodes) return placed_with_sums_in_turns();
    Refiner wide = *this;
    if (wide.try_each({&Decisions::splits_any})) wide.improve();
    improve();
    return (wide.is_better_than(*this) ? wide : *this).placed_with_sums_in_turns();
  }

 private:
  const Graph& graph() const { return facts_->graph; }

  /// That which takes less time; of two that hardly differ, that which communicates less.
  bool is_better_than(const Refiner& other) const {
    const double seconds = cost_.seconds, others = other.cost_.seconds;
    if (std::abs(seconds - others) > 0.01 * std::max(seconds, others)) return seconds < others;
    return cost_.communication < other.cost_.communication;
  }

  /// Placed as decided, with what each op took.
  struct Try {
    ShardedGraph graph;
    std::vector<Choice> choices;
    Try(LayoutFacts& facts, const Decisions& decisions, const EarlierChoices& earlier) {
      Placer placer(facts, decisions, earlier, false);
      graph = placer.run();
      choices = placer.choices();
    }
  };

  /// As it was decided, with reasons.
  ShardedGraph placed(const Decisions& decisions) {
    return Placer(*facts_, decisions, {best_.choices, first_difference(decisions)}, true).run();
  }

  /// The first place in the walk where other decisions than those of `best_` matter.
  size_t first_difference(const Decisions& other) const {
    if (other.freedoms() != decisions_.freedoms()) return 0;
    size_t first = other.stretches == decisions_.stretches ? everywhere : facts_->of_graph->first_stretched();
    const auto differs = [&](ValueId value, const Placement&) {
      const NodeId made = graph().value(value).producer;
      const LoopOp* loop = std::get_if<LoopOp>(&graph().node(made).op);
      const bool stacked = loop && std::ranges::count(loop->collects, value, &LoopOp::Collect::stacked) > 0;
      first = std::min(first, stacked ? facts_->of_graph->end_of_loop(made) : facts_->of_graph->place_of(made));
    };
    for_each_difference(decisions_.lies, other.lies, differs);
    for_each_difference(decisions_.moves_only, other.moves_only,
                        [&](NodeId op, int) { first = std::min(first, facts_->of_graph->place_of(op)); });
    return first;
  }

  /// Tries what is few before what is many, each beside what helped before.
  void improve() {
    choose_freedom();
    add_partial_terms_first();
    look_ahead(Ahead::alone);
    sends_no_more_ = true;
    try_each({&Decisions::frees_neighbours, &Decisions::keeps_made, &Decisions::stretches});
    look_ahead(Ahead::together);
    slack_ = 1e-9, least_gain_ = 1e-2;
    look_ahead(Ahead::in_parts);
  }

  /// Whether it was.
  bool take_if_cheaper(const std::shared_ptr<LayoutFacts>& facts, const Decisions& decisions) {
    const size_t same_until = facts == facts_ ? first_difference(decisions) : 0;
    if (same_until == everywhere) return false;
    Try tried(*facts, decisions, {best_.choices, same_until});
    const PlacedCost cost(tried.graph);
    const bool sends_more =
        (sends_no_more_ && cost.bytes > cost_.bytes) || cost.communication > cost_.communication * (1 + slack_);
    if (sends_more && cost.seconds >= cost_.seconds * (1 - worth_sending_more)) return false;
    if (cost.seconds >= cost_.seconds * (1 - least_gain_)) return false;
    facts_ = facts;
    decisions_ = decisions;
    best_ = std::move(tried);
    cost_ = cost;
    return true;
  }

  /// The best, with sums of loops completed turn by turn, where later turns hide that. It takes longer, but is not
  /// waited for, which PlacedCost does not see: so it is no try like others.
  ShardedGraph placed_with_sums_in_turns() {
    Decisions decisions = decisions_;
    for (const auto& [stack, lies] : completed_in_turns(best_.graph)) decisions.lies.insert_or_assign(stack, lies);
    return placed(decisions);
  }

  void choose_freedom() { try_each({&Decisions::frees_inner, &Decisions::counts_copies}); }

  /// Whether any of them helps.
  bool try_each(std::initializer_list<bool Decisions::*> freedoms) {
    bool helps = false;
    for (bool Decisions::*freedom : freedoms) {
      Decisions other = decisions_;
      other.*freedom = !(other.*freedom);
      helps |= take_if_cheaper(facts_, other);
    }
    return helps;
  }

  /// Terms that are partial over the same axes are added before they are completed, once for all of them.
  void add_partial_terms_first() {
    std::vector<std::vector<Partial>> kinds;
    const auto kind = [&](ValueId value) {
      if (value.index >= best_.graph.placements.size() || !best_.graph.placement(value).is_partial()) return plain_term;
      const std::vector<Partial>& partial = best_.graph.placement(value).partial;
      if (is_carry(value)) return fixed_term;
      const auto at = std::ranges::find(kinds, partial);
      if (at == kinds.end()) kinds.push_back(partial);
      return static_cast<int>(std::ranges::find(kinds, partial) - kinds.begin()) + 1;
    };
    Graph other = graph();
    if (!reassociate(other, kind)) return;
    const auto of_graph = std::make_shared<GraphFacts>(std::move(other), facts_->machine, facts_->of_graph->planner);
    const auto facts = std::make_shared<LayoutFacts>(of_graph, facts_->layout);
    const Decisions now = decisions_;
    take_if_cheaper(facts, now);
    choose_freedom();
  }

  /// What enters a turn; one that is partial adds up turn by turn.
  bool is_carry(ValueId value) const {
    const LoopOp* loop = std::get_if<LoopOp>(&graph().node(graph().value(value).producer).op);
    return loop && std::ranges::find(loop->carries, value, &LoopOp::Carry::entering) != loop->carries.end();
  }

  /// Which ways are looked for: at first those to do without movements that each concern one value, then also those by
  /// which products decide together, at last also those to do without work that all ranks repeat.
  enum class Ahead { alone, together, in_parts };

  /// Tries the ways to do without what costs most, until so many in a row did not help or enough was tried.
  void look_ahead(Ahead ahead) {
    const size_t enough = std::min<size_t>(most_nodes / graph().nodes.size(), 24);
    size_t left = enough;
    for (;;) {
      const auto wanted = wishes(graph(), best_.graph, ahead == Ahead::in_parts);
      const bool found = std::ranges::any_of(wanted, [&](const std::vector<Wish>& ways) {
        const double before = cost_.seconds;
        const Decisions base = decisions_;
        for (const Wish& way : ways) {
          Decisions decisions = base;
          for (const auto& [value, lies] : way.lies) decisions.lies.insert_or_assign(value, lies);
          for (const auto& [op, operand] : way.moves_only) decisions.moves_only.insert_or_assign(op, operand);
          if (ahead == Ahead::alone && !way.moves_only.empty()) continue;
          if (left == 0 || !tried_.insert(decisions).second) continue;
          --left;
          take_if_cheaper(facts_, decisions);
        }
        return cost_.seconds < before;
      });
      if (!found || left == 0 || tried_.size() > 8 * enough) return;
      left = enough;
    }
  }

  static constexpr double worth_sending_more = 0.2;  // of the time
  static constexpr size_t everywhere = std::numeric_limits<size_t>::max();
  static constexpr size_t most_nodes = 15'000;  // placed in vain one after the other, about

  std::shared_ptr<LayoutFacts> facts_;  // shared with who decides otherwise
  Decisions decisions_;
  std::set<Decisions> tried_;
  // A sum that is scattered and gathered takes as long as a completed one, but two calls: only for work that counts.
  double slack_ = 0, least_gain_ = 1e-9;
  bool sends_no_more_ = false;  // what the latency of calls alone would gain may be lost where calls are combined
  Try best_;
  PlacedCost cost_;
};

}  // namespace

ShardedGraph place(std::shared_ptr<GraphFacts> graph, const Layout& layout) {
  ShardedGraph placed = Refiner(std::move(graph), layout).run();
  label_added(placed);  // what was tried in vain needs neither labels nor a look
  verify_graph(placed.graph, "place");
  return placed;
}

ShardedGraph place(const Graph& graph, const Layout& layout, const Machine& machine) {
  return place(facts_of(graph, layout.mesh, machine), layout);
}

}  // namespace mesh
