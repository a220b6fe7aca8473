// graph_facts.h: what is known of a graph on a mesh whatever its layout says. A search places a graph under a thousand
// layouts, which share it: most ops lie under one as they did under another.
#pragma once
#include <limits>
#include <memory>
#include <vector>

#include "codegen/layout/margins.h"
#include "codegen/layout/priced_strategies.h"
#include "codegen/layout/reshard.h"

namespace mesh {

class GraphFacts {
 public:
  /// `planner` is of these dims and of the machine: what it knows serves other graphs too.
  GraphFacts(Graph, const Machine&, std::shared_ptr<ReshardPlanner> planner);
  GraphFacts(const GraphFacts&) = delete;

  const std::vector<Factor>& factors(NodeId) const;
  bool reads_beside(NodeId) const;
  /// Whether it joins, cuts or regroups a dim (Decisions::stretches).
  bool may_stretch(NodeId) const;
  /// Where a node, or the end of a loop, comes in the walk over all bodies.
  size_t place_of(NodeId) const;
  size_t end_of_loop(NodeId) const;
  /// Whether the walk comes by it: what was rewritten leaves nodes behind that nothing reads.
  bool lives(NodeId) const;
  /// The first that may stretch; behind all if none does.
  size_t first_stretched() const { return first_stretched_; }
  /// The strategies of one of the graph's nodes, as it is there: known again where its surroundings are as before.
  std::shared_ptr<const PricedStrategies> strategies(const OpContext&, NodeId);

  const Graph graph;
  const Machine& machine;
  const std::shared_ptr<ReshardPlanner> planner;
  const Margins margins;

 private:
  void walk(BodyId, size_t& place);

  /// The last surroundings in which a node was looked at.
  struct Met {
    std::vector<size_t> hashes;
    std::vector<Surroundings> surroundings;
    std::vector<std::shared_ptr<const PricedStrategies>> strategies;
    size_t next = 0;  // which gives way where there are too many
  };
  static constexpr size_t most_met = 128;  // of one node

  std::vector<std::vector<Factor>> factors_;  // by node
  std::vector<bool> beside_;                  // by node
  std::vector<size_t> places_, ends_;         // by node
  size_t first_stretched_ = std::numeric_limits<size_t>::max();
  std::vector<Met> met_;  // by node
};

/// With a planner of its own. What they are of must stay while they are used.
std::shared_ptr<GraphFacts> facts_of(const Graph&, const MeshShape&, const Machine&);

}  // namespace mesh
