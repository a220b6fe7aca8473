// recognise.h: finds attention in the forward graph and makes it one op, so that neither pass stores scores. A
// composition stays as it is written where somebody reads the scores or weights, or where the layout splits the keys.
#pragma once
#include <functional>

#include "codegen/graph/graph.h"

namespace mesh {

/// `is_split(dim)`: whether the layout may split the dim over ranks.
void recognise(Graph&, const std::function<bool(DimId)>& is_split);

}  // namespace mesh
