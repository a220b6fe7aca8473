// stash.h: what a backward loop needs of its forward loop. A forward value is collected turn by turn and sliced again
// (a stash) where a product reads it or computing it again would cost more than memory; else its node is repeated in
// the backward body. What a layout has computed again is not kept: named values, or all of a turn but what it began
// with.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "codegen/gradient/computed_again.h"
#include "codegen/graph/clone.h"
#include "codegen/graph/graph.h"

namespace mesh {

class Stash {
 public:
  /// Of the forward graph, and loops that no groups are made of any more.
  Stash(Graph& graph, const ComputedAgain& again)
      : graph_(graph), again_(again), named_(makers_of(graph, again.values)) {}

  /// `backward` is the body of the loop that is the gradient of loop node `forward`.
  void pair(BodyId backward, NodeId forward) { forward_of_[backward] = forward; }

  /// Replaces every read of a forward loop's inner values in backward bodies. Called once, when all bodies are
  /// complete.
  void bring_forward_values();

 private:
  void walk(BodyId);
  ValueId resolve(ValueId, BodyId in);
  ValueId repeat_node(ValueId, BodyId in);
  ValueId stash(ValueId, BodyId in);
  ValueId slice(ValueId stacked, ValueType turn, BodyId in);
  BodyId parent(BodyId) const;
  void mark_products_operands(BodyId);
  int shifts_in(ValueId) const;
  LoopOp& loop(BodyId body) { return std::get<LoopOp>(graph_.node(graph_.body(body).owner).op); }

  Graph& graph_;
  const ComputedAgain again_;
  const std::set<NodeId> named_;
  std::map<BodyId, NodeId> forward_of_;
  std::map<std::pair<ValueId, BodyId>, ValueId> resolved_;
  std::map<std::pair<NodeId, BodyId>, std::unique_ptr<Clone>> repeated_;
  std::map<ValueId, ValueId> collected_;  // forward value -> its stack
  std::set<ValueId> materialised_;        // forward values that products read: they stand in memory in any case
  std::map<BodyId, std::vector<NodeId>> rebuilt_;  // bodies in progress
};

}  // namespace mesh
