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
std::vector<AxisId> Work::splitting(const Node& node) const {
  std::vector<AxisId> axes;
  const auto consider = [&](ValueId value) {
    for (const DimPlacement& dim : sharded_.placement(value).dims)
      for (AxisId axis : dim.axes)
        if (!contains(axes, axis)) axes.push_back(axis);
  };
  for (const ValueId input : node.inputs) consider(input);
  for (const ValueId output : node.results) consider(output);
  return axes;
}

double Work::flops(const Node& node) const {
  if (std::holds_alternative<LoopOp>(node.op) || std::holds_alternative<ReshardOp>(node.op)) return 0;
  double flops = definition(node.op).flops(graph_, node);
  if (flops == 0) return 0;
  if (has_products(definition(node.op).effort(node.op)))
    flops *= largest_share(graph_, sharded_.layout.mesh, node, definition(node.op).factors(graph_, node),
                           sharded_.placement(node.inputs[0]));
  return flops / static_cast<double>(sharded_.layout.mesh.size(splitting(node)));
}

double Work::seconds(const Node& node) const {
  const double of_rank = flops(node);
  if (of_rank == 0) return 0;
  double bytes = 0;
  const auto touch = [&](ValueId value) {
    bytes +=
        static_cast<double>(local_bytes(graph_, sharded_.layout.mesh, graph_.type(value), sharded_.placement(value)));
  };
  for (const ValueId input : node.inputs) touch(input);
  for (const ValueId output : node.results) touch(output);
  const double touched = is_stored_by_product(node) ? 0 : touched_bytes(graph_, node, bytes);
  return compute_seconds(sharded_.machine, definition(node.op).effort(node.op), type_of_work(graph_, node), of_rank,
                         touched);
}

}  // namespace mesh
