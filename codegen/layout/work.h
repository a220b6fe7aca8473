// work.h: how long a placed op takes the rank that has most of it.
#pragma once
#include <vector>

#include "codegen/layout/sharded_graph.h"

namespace mesh {

class Work {
 public:
  explicit Work(const ShardedGraph&);
  /// Of one execution on the named machine; nothing for loops, whose bodies have the work, and for movements.
  double seconds(const Node&) const;
  /// Its operations.
  double flops(const Node&) const;

 private:
  bool is_stored_by_product(const Node&) const;
  std::vector<AxisId> splitting(const Node&) const;

  const ShardedGraph& sharded_;
  const Graph& graph_;
  std::vector<int> readers_;  // of each value
};

}  // namespace mesh
