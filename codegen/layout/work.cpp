#include "codegen/layout/work.h"

#include <algorithm>

#include "codegen/graph/op.h"
#include "codegen/layout/balance.h"
#include "codegen/layout/cost.h"

namespace mesh {

Work::Work(const ShardedGraph& sharded)
    : sharded_(sharded), graph_(sharded.graph), readers_(sharded.graph.values.size()) {
  for (const Body& body : graph_.bodies)
    for (const NodeId id : body.nodes)
      for (const ValueId input : graph_.node(id).inputs) ++readers_[input.index];
}

/// A sum to which a product adds what nobody else reads: the product does so while it stores.
bool Work::is_stored_by_product(const Node& node) const {
  return is_addition(node.op) && std::ranges::any_of(node.inputs, [&](ValueId term) {
           const Node& maker = graph_.node(graph_.value(term).producer);
           return maker.body == node.body && readers_[term.index] == 1 &&
                  definition(maker.op).effort(maker.op) == Effort::product;
         });
}

/// The axes that split any operand or result split the work.
double Work::seconds(const Node& node) const {
  if (std::holds_alternative<LoopOp>(node.op) || std::holds_alternative<ReshardOp>(node.op)) return 0;
  double flops = definition(node.op).flops(graph_, node);
  if (flops == 0) return 0;
  std::vector<AxisId> axes;
  double bytes = 0;
  const auto consider = [&](ValueId value) {
    const Placement& placement = sharded_.placement(value);
    for (const DimPlacement& dim : placement.dims)
      for (AxisId axis : dim.axes)
        if (!contains(axes, axis)) axes.push_back(axis);
    bytes += static_cast<double>(local_bytes(graph_, sharded_.layout.mesh, graph_.type(value), placement));
  };
  for (const ValueId input : node.inputs) consider(input);
  for (const ValueId output : node.results) consider(output);
  const double share = static_cast<double>(sharded_.layout.mesh.size(axes));
  if (definition(node.op).effort(node.op) == Effort::product)
    flops *= largest_share(graph_, sharded_.layout.mesh, node, definition(node.op).factors(graph_, node),
                           sharded_.placement(node.inputs[0]));
  const ValueId operand = node.inputs.empty() ? node.results[0] : node.inputs[0];  // none: random numbers
  const double touched = is_stored_by_product(node) ? 0 : touched_bytes(graph_, node, bytes);
  return compute_seconds(sharded_.machine, graph_.type(operand).element, flops / share, touched);
}

}  // namespace mesh
