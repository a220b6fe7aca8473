#include "codegen/rewrites/narrow_gradients.h"

#include <algorithm>
#include <map>

#include "codegen/graph/builder.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"

namespace mesh {
namespace {

class GradientNarrower {
 public:
  GradientNarrower(Graph& graph, Type type) : graph_(graph), type_(type) {}

  void run() {
    for (auto& [name, value] : graph_.names)
      if (name.starts_with("grad(") && graph_.type(value).element == computed_in(type_)) {
        const std::string known = known_as(graph_, value);
        const ValueId part = narrowed(value);
        if (graph_.value(part).name.empty()) graph_.value(part).label = known;
        const ValueId before = value;
        value = wide_.contains(part) ? wide_[part] : wide_[part] = widened(part, known);
        for_each_caller(graph_, [&](ValueId& of) { of = of == before ? value : of; });
      }
  }

 private:
  const Node& producer(ValueId value) const { return graph_.node(graph_.value(value).producer); }

  /// Of what a loop stacks each turn's part; the stack has the type then.
  ValueId narrowed(ValueId value) {
    if (const auto known = narrow_.find(value); known != narrow_.end()) return known->second;
    const NodeId made = graph_.value(value).producer;
    if (const auto* loop = std::get_if<LoopOp>(&graph_.node(made).op)) {
      const auto stacks = std::ranges::find(loop->collects, value, &LoopOp::Collect::stacked);
      if (stacks != loop->collects.end()) {
        const auto place = stacks - loop->collects.begin();
        const ValueId turn = narrowed(stacks->turn);
        LoopOp op = std::get<LoopOp>(graph_.node(made).op);
        op.collects[static_cast<size_t>(place)].turn = turn;
        graph_.node(made).op = op;
        connect_loop(graph_.node(made));
        graph_.value(value).type.element = type_;
        return narrow_[value] = value;
      }
    }
    return narrow_[value] = part_of(value);
  }

  /// Where the optimizer reads it: there each rank has what it updates, and the sum is completed so (layout/place.cpp).
  ValueId widened(ValueId part, const std::string& name) {
    GraphBuilder build(graph_);
    build.part = Part::update;
    build.span = graph_.objective->span;
    const ValueId wide = build.computed(part);
    graph_.value(wide).label = name;
    return wide;
  }

  /// Directly behind what makes the value.
  ValueId part_of(ValueId value) {
    const NodeId made = graph_.value(value).producer;
    GraphBuilder build = beside(graph_, graph_.node(made));
    build.body = graph_.value(value).body;
    const ValueId part = build.cast_part(value, type_);
    std::vector<NodeId>& nodes = graph_.body(build.body).nodes;
    const NodeId last = nodes.back();
    nodes.pop_back();
    nodes.insert(std::ranges::find(nodes, made) + 1, last);
    return part;
  }

  Graph& graph_;
  Type type_;
  std::map<ValueId, ValueId> narrow_, wide_;
};

}  // namespace

void narrow_gradients(Graph& graph, Type type) {
  GradientNarrower(graph, type).run();
  verify_graph(graph, "narrow_gradients");
}

}  // namespace mesh
