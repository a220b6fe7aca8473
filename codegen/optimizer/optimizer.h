// optimizer.h: clipping, the optimizer's formulas (those of torch.optim) and the updates, as nodes of the graph.
#pragma once
#include <map>

#include "codegen/graph/graph.h"

namespace mesh {

/// Appends the updates of Graph::objective for the given gradients. What the optimizer keeps are new Stored tensors
/// "PATH.moment1", "PATH.moment2", "PATH.momentum", "PATH.row_moment", "PATH.column_moment".
void append_optimizer(Graph&, const std::map<StoredId, ValueId>& gradients);

}  // namespace mesh
