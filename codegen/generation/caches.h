// caches.h: tensors that an entry leaves for later calls, in a graph under construction. Within loops each turn has its
// own: the tensor has the loops' dims first.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "codegen/graph/builder.h"
#include "codegen/graph/graph.h"

namespace mesh {

class Caches {
 public:
  explicit Caches(Graph& graph) : graph_(graph) {}

  /// One that lies in the loops around `body`; `type` is that of a turn.
  StoredId declare(BodyId body, const std::string& path, ValueType type, Span);
  /// What it held before this call, as the body that it was declared for sees it.
  ValueId before(StoredId, BodyId body);
  /// What it is to hold: a value of that body.
  void keep(StoredId, ValueId next);
  /// Appends what has been kept. Once, when the graph is complete.
  void update(Span);

 private:
  Graph& graph_;
  std::vector<std::pair<StoredId, ValueId>> kept_;
};

/// The loops around a body, outermost first.
std::vector<NodeId> loops_around(const Graph&, BodyId);
/// Their dims.
std::vector<DimId> loop_dims_around(const Graph&, BodyId);

}  // namespace mesh
