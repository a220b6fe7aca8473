// layout_facts.h: what is known of a graph under a layout before anything is decided of its placements, the same for
// each try to place it.
#pragma once
#include <limits>
#include <memory>
#include <vector>

#include "codegen/layout/declared.h"
#include "codegen/layout/divided.h"
#include "codegen/layout/margins.h"
#include "codegen/layout/priced_strategies.h"
#include "codegen/layout/reshard.h"
#include "codegen/layout/stages.h"

namespace mesh {

class LayoutFacts {
 public:
  /// `planner` is of these dims, mesh and machine: what it knows serves other graphs too.
  LayoutFacts(Graph, const Layout&, const Machine&, ReshardPlanner& planner);
  LayoutFacts(const LayoutFacts&) = delete;

  const std::vector<Factor>& factors(NodeId) const;
  bool reads_beside(NodeId) const;
  /// Whether it joins, cuts or regroups a dim (Decisions::stretches).
  bool may_stretch(NodeId) const;
  const DeclaredAxes& declared_axes(ValueId) const;
  /// Axes over which rules split what may go round while a node works on it.
  const std::vector<AxisId>& ruled_rings(NodeId) const;
  /// Where a node, or the end of a loop, comes in the walk over all bodies.
  size_t place_of(NodeId) const;
  size_t end_of_loop(NodeId) const;
  /// The first that may stretch; behind all if none does.
  size_t first_stretched() const { return first_stretched_; }
  /// The strategies of one of the graph's nodes, as it is there: known again where its surroundings are as before.
  std::shared_ptr<const PricedStrategies> strategies(const OpContext&, NodeId);

  const Graph graph;
  const Layout& layout;
  const Machine& machine;
  ReshardPlanner& planner;
  const Declared declared;
  const Stages stages;
  const DividedLoops divided;
  const Margins margins;

 private:
  void walk(BodyId, size_t& place);
  std::vector<AxisId> rings_of(const Node&, const std::vector<Factor>&) const;

  struct Known {
    Surroundings surroundings;
    std::shared_ptr<const PricedStrategies> strategies;
  };
  static constexpr size_t most_known = 8;  // of one node

  std::vector<std::vector<Factor>> factors_;  // by node
  std::vector<bool> beside_;                  // by node
  std::vector<DeclaredAxes> declared_axes_;   // by value
  std::vector<std::vector<AxisId>> rings_;    // by node
  std::vector<size_t> places_, ends_;         // by node
  size_t first_stretched_ = std::numeric_limits<size_t>::max();
  std::vector<std::vector<Known>> known_;  // by node
};

}  // namespace mesh
