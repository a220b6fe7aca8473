// recognise.h: finds attention in the forward graph and makes it one op, so that neither pass stores scores. A
// composition stays as it is written where somebody reads the scores or weights, or where the layout splits the keys
// otherwise than the queries.
#pragma once
#include <functional>

#include "codegen/graph/graph.h"

namespace mesh {

/// Of a layout: whether it may split `dim` of a value with these dims over ranks of an axis over which it does not
/// split `beside` (unset: any).
using MaySplit = std::function<bool(const std::vector<DimId>& dims, DimId dim, DimId beside)>;

void recognise(Graph&, const MaySplit&);

}  // namespace mesh
