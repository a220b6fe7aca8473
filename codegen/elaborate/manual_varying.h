// manual_varying.h: which values of a manual region are the same on all ranks of an axis, and which vary. What comes
// from outside is the same, a part of a dim and a rank's coordinate vary, and so does what is made of what varies, up
// to a collective that gives all ranks one result.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

class Varying {
 public:
  /// Of the region's values, as one rank sees them. E0350 where a value that varies does what must be done alike, E0353
  /// for a collective of a value that is the same on all ranks.
  Varying(Elaboration&, const Region&);

  /// The ranks (RanksDim) over which a value varies, in the region's order.
  std::vector<DimId> of(ValueId) const;

 private:
  using Over = std::set<DimId>;

  void body(const std::vector<NodeId>&);
  void node(NodeId);
  void loop(const LoopOp&);
  void across(NodeId, const AcrossRanks&);
  Over over(ValueId) const;
  /// Whether this is news.
  bool add(ValueId, const Over&);
  void same_already(const Node&, const AcrossRanks&);

  Elaboration& e_;
  const Region& region_;
  std::map<ValueId, Over> over_;
  bool reports_ = false;  // not before it is known what varies from turn to turn of a loop
};

/// The nodes of the region in its own body, in order.
std::vector<NodeId> nodes_of(const Graph&, const Region&);

}  // namespace mesh::elaboration
