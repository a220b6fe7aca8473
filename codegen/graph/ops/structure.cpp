// structure.cpp: what gives the graph its shape rather than a number: loops, updates of what is stored, movements
// between placements.
#include "codegen/graph/ops/definitions.h"

namespace mesh::ops {
namespace {

Types infer_nothing(const Graph&, const Node&) { return {}; }
Types infer_same(const Graph& graph, const Node& node) { return {operand(graph, node, 0)}; }

}  // namespace

// A loop's results are made by whoever builds it, with its carries and collects; its gradient is
// graph/differentiate.cpp.
const OpDefinition loop{"repeat", infer_nothing, factors_by_name, completes, no_flops, nullptr};
const OpDefinition update{"update", infer_nothing, factors_by_name, completes, no_flops, nullptr};
const OpDefinition until{"until", infer_nothing, factors_by_name, completes, no_flops, nullptr};
const OpDefinition reshard{"reshard", infer_same, factors_by_name, completes, no_flops, nullptr};

}  // namespace mesh::ops
