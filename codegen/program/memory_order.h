// memory_order.h: in which order the dims of each value lie in memory. Stored and wanted tensors keep their logical
// order; for all others the order is chosen that makes products plain (rows, then columns, each in one stretch) and
// writes gradients as the parameter lies. An order is a wish: steps find dims by name, whatever the order.
#pragma once
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

/// For each value its dims, outermost first. Of what ranks move inside of loops the dims `taken` come first: of these a
/// step there may have one element.
std::vector<std::vector<DimId>> memory_orders(const Graph&, const std::vector<DimId>& taken);

}  // namespace mesh
