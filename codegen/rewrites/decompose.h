// decompose.h: softmax, log-softmax, log-sum-exp and arg-reductions as maps and reductions over named dims, after
// differentiation. A layout that splits their dim then needs only reductions of a row's numbers, never the row.
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

void decompose(Graph&);

}  // namespace mesh
