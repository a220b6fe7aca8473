#include "codegen/graph/by_neighbours.h"

#include "codegen/graph/op.h"

namespace mesh {

std::vector<ValueId> by_neighbours(GraphBuilder& build, const Node& node,
                                   const std::function<bool(DimId)>& is_sequence) {
  const auto* op = std::get_if<DefinedOp>(&node.op);
  const auto written = op != nullptr ? op->kind->by_neighbours : nullptr;
  return written ? written(build, node, is_sequence) : std::vector<ValueId>{};
}

}  // namespace mesh
