// placer.h: the state of layout/place.cpp: the sharded graph that is being built beside the graph that is read.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "codegen/layout/decisions.h"
#include "codegen/layout/layout_facts.h"
#include "codegen/layout/sharded_graph.h"

namespace mesh {

/// What an op came to take.
struct Choice {
  std::shared_ptr<const PricedStrategies> of;
  const PricedStrategy* taken = nullptr;
  double seconds, operands;  // all, and what of it moves operands
  const Placement& needs(size_t operand) const { return of->needs[operand][taken->needs[operand]]; }
};

/// Of an earlier walk over the same graph: what ops took, by node, which those in front of the first place in the walk
/// (GraphFacts::place_of) where something is decided otherwise take again.
struct EarlierChoices {
  std::span<const Choice> by_node = {};
  size_t until = 0;
};

class Placer {
 public:
  /// A try that is only compared `tells` no reasons.
  Placer(LayoutFacts&, const Decisions&, const EarlierChoices&, bool tells);
  ShardedGraph run();
  /// What each op took.
  std::vector<Choice> choices() { return std::move(choices_); }

 private:
  // place.cpp: the walk
  void body(BodyId);
  void node(NodeId);
  void read(NodeId);
  void update(NodeId);
  bool place_adding_up(NodeId);
  void complete_gradients(NodeId);
  Choice choose(NodeId);
  Choice cheapest(const OpContext&, std::shared_ptr<const PricedStrategies>);
  void settle(const Choice&, NodeId);
  void tell_partial(NodeId, const Choice&, size_t result, const std::string& what);
  DeclaredAxes bound(ValueId) const;
  void find_inner_values();
  // place_loop.cpp
  void loop(NodeId);
  void begin_carry(NodeId loop, const LoopOp&, LoopOp::Carry&);
  void end_carry(LoopOp::Carry&);
  void stack_turns(const LoopOp&, LoopOp::Collect&);
  std::vector<std::optional<DimPlacement>> declared_of(const LoopOp::Carry&) const;
  Placement carry_placement(const LoopOp::Carry&);
  void start_adding_up(const LoopOp&);
  const DimPlacement* own_turns(BodyId) const;
  std::vector<Where> place_of_tensors(const Node&) const;
  std::vector<Where> must_lie(NodeId) const;
  std::vector<Where> in_own_turn(std::vector<Where> at, BodyId) const;
  std::optional<Placement> ruled_turn(const LoopOp&, const LoopOp::Collect&);
  ValueId collected(const LoopOp&, const LoopOp::Collect&);
  void take_turns(LoopOp&);

  // bring.cpp: values where they are needed
  Placement without_turns_of_others(ValueId, Placement to) const;
  /// The value where it is needed: itself, a copy made earlier, a free value computed there, or the end of new reshard
  /// nodes.
  ValueId bring(ValueId, const Placement& needed, const std::string& need);
  ValueId materialise(ValueId free, const Placement& to);
  /// In memory of its own, that only those have where it lies.
  ValueId materialise_at(ValueId free, const Placement& to);
  ValueId through_view(ValueId, const Placement& to, const std::string& need);
  ValueId send_round(ValueId part, const Placement& to, const std::string& need);
  ValueId resharded(ValueId, ValueId copy, const Placement& to, const std::string& need, BodyId);
  ValueId reshard(ValueId, ValueId copy, const Placement& to, const std::string& need);
  std::vector<ValueId> copies_of(ValueId) const;
  ValueId nearest(ValueId, const Placement& to);
  std::optional<Placement> before_view(ValueId, const Placement& to);
  ValueId repeat_with(ValueId, const Placement& to, const std::vector<ValueId>& inputs);
  double seconds(ValueId, const Placement& to);
  double seconds_to_parts(ValueId, const Placement& to);
  std::string reason(const ReshardStep&, ValueId, const Placement& after, const Placement& to,
                     const std::string& need) const;
  std::string ring_reason(const ReshardStep&, ValueId, const Placement& after, const std::string& need) const;
  std::string completion_reason(const ReshardStep&, ValueId, const std::string& need) const;
  Span rule_of(const ReshardStep&, ValueId) const;

  ValueId home(ValueId) const;
  const Placement& placement(ValueId id) const { return out_.placements[id.index]; }
  void set_placement(ValueId, Placement, std::string provenance = {});
  bool is_free(ValueId id) const { return id.index < free_.size() && free_[id.index]; }
  void emit(NodeId id) { rebuilt_[out_.graph.node(id).body.index].push_back(id); }
  std::string describe(const Node&) const;

  ShardedGraph out_;
  Graph& graph_;  // out_.graph
  LayoutFacts& facts_;
  GraphFacts& of_graph_;
  const Layout& layout_;
  const Declared& declared_;
  const Stages& stages_;
  const DividedLoops& divided_;
  const Decisions& decisions_;
  const EarlierChoices earlier_;
  const bool tells_;
  std::vector<Choice> choices_;  // by node
  std::vector<bool> inner_;      // within an expression: no name, and one reader, elementwise or of neighbours
  std::vector<bool> summed_;     // of those, terms of products that leave the completion to their sum
  ReshardPlanner& planner_;
  std::vector<bool> free_;              // depends on no parameter, input or state
  std::map<ValueId, ValueId> home_;     // a result that was moved to its rule's placement at once
  std::map<ValueId, ValueId> unmoved_;  // the reverse
  /// Copies are shared by all readers, but those of a parameter only within a phase of the step.
  using Phase = int;
  Phase phase_of_copies(ValueId) const;
  std::map<std::pair<ValueId, Phase>, std::map<Placement, ValueId>> copies_;
  /// An op that contracts a split dim leaves a partial result.
  struct Contraction {
    DimId dim;
    std::string op;
    Reduce reduce;
    bool operator==(const Contraction&) const = default;
  };
  std::map<ValueId, std::map<AxisId, Contraction>> partial_because_;  // where a partial value comes from, by its axes
  std::map<ValueId, ValueId> adding_up_;  // a carry that only adds up -> the value added, once known
  /// With what a carry of a pipeline's F begins, and how it lies.
  struct CameIn {
    Placement lies;
    ValueId initial;
  };
  std::map<ValueId, CameIn> came_in_;         // by what it begins with, before that is moved
  std::vector<std::vector<NodeId>> rebuilt_;  // by body
  NodeId consumer_;                           // for which values are brought
};

}  // namespace mesh
