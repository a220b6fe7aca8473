// stash.h: what a backward loop needs of its forward loop. A forward value is collected turn by turn and sliced again
// (a stash) where a product reads it or computing it again would cost more than memory; else its node is repeated in
// the backward body. Under remat a turn of a loop keeps nothing but what it began with: all of it is computed again.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "codegen/graph/clone.h"
#include "codegen/graph/graph.h"

namespace mesh {

class Stash {
 public:
  /// `remat`: the dims of loops whose turns are computed again.
  Stash(Graph& graph, std::set<DimId> remat) : graph_(graph), remat_(std::move(remat)) {}

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
  std::set<DimId> remat_;
  std::map<BodyId, NodeId> forward_of_;
  std::map<std::pair<ValueId, BodyId>, ValueId> resolved_;
  std::map<std::pair<NodeId, BodyId>, std::unique_ptr<Clone>> repeated_;
  std::map<ValueId, ValueId> collected_;  // forward value -> its stack
  std::set<ValueId> materialised_;        // forward values that products read: they stand in memory in any case
  std::map<BodyId, std::vector<NodeId>> rebuilt_;  // bodies in progress
};

}  // namespace mesh
