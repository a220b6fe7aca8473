// product_groups.h: products that had better decide together what they move, each of which alone decides otherwise.
#pragma once
#include <map>
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

class ProductGroups {
 public:
  explicit ProductGroups(const Graph&);

  /// What each of a group moves alone, as Decisions::moves_only: the operand that they share; nothing, where their sum
  /// is what counts, and with them what is computed from the same operands. Empty for an op that is no product.
  std::vector<std::map<NodeId, int>> of(NodeId) const;

 private:
  bool is_product(NodeId) const;
  bool in_one_phase(NodeId, NodeId) const;
  const std::vector<NodeId>& readers(ValueId) const;
  std::map<NodeId, int> sharing(ValueId, NodeId like) const;
  ValueId sum_with(ValueId) const;
  void terms_of(ValueId sum, std::vector<NodeId>& products) const;

  const Graph& graph_;
  std::map<ValueId, std::vector<NodeId>> readers_;
};

}  // namespace mesh
