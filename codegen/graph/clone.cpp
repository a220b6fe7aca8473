#include "codegen/graph/clone.h"

#include <algorithm>

#include "codegen/graph/rewrite.h"

namespace mesh {

Clone::Clone(GraphBuilder& build, NodeId of, const Outer& outer)
    : graph_(build.graph), of_(of), node_{static_cast<uint32_t>(build.graph.nodes.size())}, outer_(outer) {
  const Node node = graph_.node(of);
  graph_.nodes.push_back({node.op, {}, {}, build.body, build.part, node.span, node.scope, node.region, node.call});
  if (std::holds_alternative<LoopOp>(node.op)) {
    copy_loop(build);
    return;
  }
  for (ValueId input : node.inputs) {
    const ValueId here = outer_(input);
    graph_.node(node_).inputs.push_back(here);
  }
  for (ValueId result : node.results) {
    const ValueId again = build.argument_called(graph_.value(result), graph_.type(result), build.body, node_);
    graph_.node(node_).results.push_back(again);
    results_[result] = again;
  }
}

void Clone::copy_loop(GraphBuilder& build) {
  const LoopOp from = std::get<LoopOp>(graph_.node(of_).op);
  body_ = build.new_body(node_);
  LoopOp loop{from.dim, body_, from.reverse, {}, {}, {}, {}};
  const auto argument = [&](ValueId of) {
    return values_[of] = build.argument_called(graph_.value(of), graph_.type(of), body_, node_);
  };
  for (const auto& c : from.carries) {
    const ValueId initial = outer_(c.initial);
    loop.carries.push_back({initial, argument(c.entering), {}, {}});
  }
  for (const auto& s : from.slices) {
    const ValueId stacked = outer_(s.stacked);
    loop.slices.push_back({stacked, argument(s.turn)});
  }
  if (from.index) loop.index = argument(from.index);
  const std::vector<NodeId> nodes = graph_.body(from.body).nodes;
  for (NodeId id : nodes) copy_inner(id, build.part);
  for (size_t i = 0; i < from.carries.size(); ++i) {
    const ValueId result = from.carries[i].result;
    loop.carries[i].leaving = inner(from.carries[i].leaving);
    loop.carries[i].result = results_[result] =
        build.argument_called(graph_.value(result), graph_.type(result), build.body, node_);
  }
  graph_.node(node_).op = loop;
  connect_loop(graph_.node(node_));
}

void Clone::copy_inner(NodeId id, Part part) {
  GraphBuilder inside(graph_);
  inside.body = body_;
  inside.part = part;
  auto copy = std::make_unique<Clone>(inside, id, [this](ValueId v) { return inner(v); });
  graph_.body(body_).nodes.push_back(copy->node());
  if (std::holds_alternative<LoopOp>(graph_.node(id).op)) {
    nested_[id] = std::move(copy);
    return;
  }
  for (ValueId result : graph_.node(id).results) values_[result] = copy->result(result);
}

ValueId Clone::inner(ValueId id) {
  if (const auto known = values_.find(id); known != values_.end()) return known->second;
  if (const auto loop = nested_.find(graph_.value(id).producer); loop != nested_.end()) return loop->second->result(id);
  return outer_(id);
}

ValueId Clone::result(ValueId of) {
  if (const auto known = results_.find(of); known != results_.end()) return known->second;
  const LoopOp from = std::get<LoopOp>(graph_.node(of_).op);
  const auto collect = std::ranges::find(from.collects, of, &LoopOp::Collect::stacked);
  if (collect == from.collects.end()) internal_error("a copied node has no such result");
  const ValueId turn = inner(collect->turn);
  const ValueId stacked =
      GraphBuilder(graph_).argument_called(graph_.value(of), graph_.type(of), graph_.node(node_).body, node_);
  std::get<LoopOp>(graph_.node(node_).op).collects.push_back({turn, stacked});
  connect_loop(graph_.node(node_));
  return results_[of] = stacked;
}

}  // namespace mesh
