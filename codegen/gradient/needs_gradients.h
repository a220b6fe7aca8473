// needs_gradients.h: which values depend on a parameter, so that a gradient may flow to them.
#pragma once
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

/// Of the values that the graph has now: those that come later need none.
class NeedsGradients {
 public:
  NeedsGradients(const Graph&, const std::vector<StoredId>& parameters);
  bool operator()(ValueId id) const { return id.index < needs_.size() && needs_[id.index]; }

 private:
  void spread(BodyId);
  void spread_loop(const LoopOp&);

  const Graph& graph_;
  std::vector<bool> needs_;  // by value
};

}  // namespace mesh
