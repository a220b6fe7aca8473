// refine.cpp: places a graph several times, and keeps what costs least.
#include <algorithm>
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

class Refiner {
 public:
  Refiner(const Graph& graph, const Layout& layout, const Machine& machine)
      : planner_(std::make_shared<ReshardPlanner>(graph, layout.mesh, machine)),
        facts_(std::make_shared<LayoutFacts>(graph, layout, machine, *planner_)),
        best_(try_to_place(*facts_, {})),
        cost_(best_) {}

  /// Twice, for ops may split what nobody asks for or not: that helps here and leads astray there.
  ShardedGraph run() {
    if (cost_.communication == 0) return placed();
    if (graph().nodes.size() > most_nodes) return hidden_behind_turns();
    Refiner wide = *this;
    improve();
    wide.decisions_.splits_any = true;
    if (wide.take_if_cheaper(wide.facts_, wide.decisions_)) wide.improve();
    return (wide.cost_.communication < cost_.communication ? wide : *this).hidden_behind_turns();
  }

 private:
  const Graph& graph() const { return facts_->graph; }

  static ShardedGraph try_to_place(LayoutFacts& facts, const Decisions& decisions) {
    return Placer(facts, decisions, false).run();
  }

  /// As it was decided, with reasons.
  ShardedGraph placed() { return Placer(*facts_, decisions_, true).run(); }

  void improve() {
    choose_freedom();
    add_partial_terms_first();
    look_ahead(false);
    sends_no_more_ = true;
    try_each({&Decisions::frees_neighbours, &Decisions::keeps_made});
    look_ahead(true);
  }

  bool take_if_cheaper(const std::shared_ptr<LayoutFacts>& facts, const Decisions& decisions) {
    ShardedGraph placed = try_to_place(*facts, decisions);
    const PlacedCost cost(placed);
    if (sends_no_more_ && cost.bytes > cost_.bytes) return false;
    if (cost.communication > cost_.communication || cost.seconds >= cost_.seconds * (1 - 1e-9)) return false;
    facts_ = facts;
    decisions_ = decisions;
    best_ = std::move(placed);
    cost_ = cost;
    return true;
  }

  /// What takes longer, but is not waited for, is no try like others.
  ShardedGraph hidden_behind_turns() {
    for (const auto& [stack, lies] : completed_in_turns(best_)) decisions_.lies.insert_or_assign(stack, lies);
    return placed();
  }

  void choose_freedom() { try_each({&Decisions::frees_inner, &Decisions::counts_copies}); }

  void try_each(std::initializer_list<bool Decisions::*> freedoms) {
    for (bool Decisions::*freedom : freedoms) {
      Decisions other = decisions_;
      other.*freedom = !(other.*freedom);
      take_if_cheaper(facts_, other);
    }
  }

  /// Terms that are partial over the same axes are added before they are completed, once for all of them.
  void add_partial_terms_first() {
    std::vector<std::vector<Partial>> kinds;
    const auto kind = [&](ValueId value) {
      if (value.index >= best_.placements.size() || !best_.placement(value).is_partial()) return plain_term;
      const std::vector<Partial>& partial = best_.placement(value).partial;
      if (is_carry(value)) return fixed_term;
      const auto at = std::ranges::find(kinds, partial);
      if (at == kinds.end()) kinds.push_back(partial);
      return static_cast<int>(std::ranges::find(kinds, partial) - kinds.begin()) + 1;
    };
    Graph other = graph();
    if (!reassociate(other, kind)) return;
    const auto facts = std::make_shared<LayoutFacts>(std::move(other), facts_->layout, facts_->machine, *planner_);
    const Decisions now = decisions_;
    take_if_cheaper(facts, now);
    choose_freedom();
  }

  /// What enters a turn; one that is partial adds up turn by turn.
  bool is_carry(ValueId value) const {
    const LoopOp* loop = std::get_if<LoopOp>(&graph().node(graph().value(value).producer).op);
    return loop && std::ranges::find(loop->carries, value, &LoopOp::Carry::entering) != loop->carries.end();
  }

  /// Tries the ways to do without the dearest movements, until so many in a row did not help or enough was tried: at
  /// first those that each concern one value, then also those by which products decide `together`.
  void look_ahead(bool together) {
    const size_t enough = std::min<size_t>(most_nodes / graph().nodes.size(), 24);
    size_t left = enough;
    for (;;) {
      const bool found = std::ranges::any_of(wishes(graph(), best_), [&](const std::vector<Wish>& ways) {
        const double before = cost_.seconds;
        const Decisions base = decisions_;
        for (const Wish& way : ways) {
          Decisions decisions = base;
          for (const auto& [value, lies] : way.lies) decisions.lies.insert_or_assign(value, lies);
          for (const auto& [op, operand] : way.moves_only) decisions.moves_only.insert_or_assign(op, operand);
          if (!together && !way.moves_only.empty()) continue;
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

  static constexpr size_t most_nodes = 15'000;  // placed in vain one after the other, about

  std::shared_ptr<ReshardPlanner> planner_;  // of the dims of the graph that was given: rewrites add none
  std::shared_ptr<LayoutFacts> facts_;       // shared with who decides otherwise
  Decisions decisions_;
  std::set<Decisions> tried_;
  bool sends_no_more_ = false;  // what the latency of calls alone would gain may be lost where calls are combined
  ShardedGraph best_;
  PlacedCost cost_;
};

}  // namespace

ShardedGraph place(const Graph& graph, const Layout& layout, const Machine& machine) {
  ShardedGraph placed = Refiner(graph, layout, machine).run();
  label_added(placed);  // what was tried in vain needs neither labels nor a look
  verify_graph(placed.graph, "place");
  return placed;
}

ShardedGraph place_once(const Graph& graph, const Layout& layout, const Machine& machine, ReshardPlanner& planner) {
  LayoutFacts facts(graph, layout, machine, planner);
  return Placer(facts, {}, false).run();
}

}  // namespace mesh
