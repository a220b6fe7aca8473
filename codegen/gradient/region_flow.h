// region_flow.h: where the values come from that the nodes of a graph read, and by which lists of regions they go. Part
// of regions: what computes the lists and what verifies them ask here.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "codegen/gradient/regions.h"

namespace mesh {

/// A value as a node of a region reads it.
struct Origin {
  ValueId value;    // as it was made: of a turn of a stack, what was stacked
  RegionId region;  // that made it; unset: it is what a turn of a loop enters with, or made outside of all regions
  Part part = Part::forward;
};

class Flow {
 public:
  explicit Flow(const Graph& graph) : graph_(graph) { visit(graph.root()); }

  /// All nodes that are executed, in order, a loop before what stands in its body.
  const std::vector<NodeId>& nodes() const { return nodes_; }
  /// Nothing for what is there wherever it is asked for: stored tensors, plain numbers, turns, sums under way.
  std::optional<Origin> origin(ValueId) const;
  /// What a node reads, of a loop also what its body reads of the bodies around it.
  std::vector<Origin> reads(const Node&) const;

 private:
  void visit(BodyId);
  void capture(const LoopOp&, BodyId body, std::set<ValueId>& values) const;
  bool is_within(BodyId, BodyId around) const;

  const Graph& graph_;
  std::vector<NodeId> nodes_;
  std::set<NodeId> free_;  // and what is made of free things alone outside of regions: the position in a whole batch
  std::map<ValueId, ValueId> collected_;  // stack -> what it has a turn of
};

/// What a function of a region reads of another one: the lists that it stands in.
struct Crossing {
  using List = std::vector<ValueId> Region::*;
  bool allowed = true;
  List taken = nullptr;  // of the reader: from another region
  List kept = nullptr;   // of the reader: from its own F, R or I
  List kept_w = nullptr;
  List given = nullptr;  // of the region that made it
};
Crossing crossing(const Node& reader, const Origin&);

}  // namespace mesh
