#include "codegen/rewrites/narrow.h"

#include <map>
#include <set>

#include "codegen/graph/builder.h"
#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"

namespace mesh {
namespace {

class Narrower {
 public:
  explicit Narrower(Graph& graph) : graph_(graph) {
    for (const Body& body : graph.bodies)
      for (const NodeId id : body.nodes) exempt_around_softmax(id);
  }

  /// Rebuilds a body. A cast of what an enclosing body defines is appended there, where the loop comes next.
  void run(BodyId body) {
    std::vector<NodeId> old;
    old.swap(graph_.body(body).nodes);
    for (const NodeId id : old) {
      const Node node = graph_.node(id);
      if (const auto* loop = std::get_if<LoopOp>(&node.op)) run(loop->body);
      else if (is_narrowed(id))
        for (size_t i = 0; i < node.inputs.size(); ++i) {
          const ValueId cast = narrow(node.inputs[i], node);
          graph_.node(id).inputs[i] = cast;
        }
      graph_.body(body).nodes.push_back(id);
    }
  }

 private:
  const Node& producer(ValueId value) const { return graph_.node(graph_.value(value).producer); }

  bool is_narrowed(NodeId id) const {
    const auto* dot = std::get_if<DotOp>(&graph_.node(id).op);
    return dot && !dot->dims.empty() && !exempt_.contains(id) &&
           graph_.type(graph_.node(id).inputs[0]).element == Type::f32;
  }

  void exempt_around_softmax(NodeId id) {
    if (!std::holds_alternative<DotOp>(graph_.node(id).op)) return;
    for (const ValueId input : graph_.node(id).inputs) {
      const Node& weights = source(input);
      if (!std::holds_alternative<SoftmaxOp>(weights.op)) continue;
      exempt_.insert(id);
      const Node& scores = source(weights.inputs[0]);
      if (std::holds_alternative<DotOp>(scores.op)) exempt_.insert(graph_.value(scores.results[0]).producer);
    }
  }

  /// What makes the value, but for views, casts and scaling.
  const Node& source(ValueId value) const {
    const Node* node = &producer(value);
    while (is_view(node->op) || is_elementwise(node->op)) node = &producer(node->inputs[0]);
    return *node;
  }

  /// The value in bf16, for `reader`. Of a view it is the same view of what that views.
  ValueId narrow(ValueId value, const Node& reader) {
    if (const auto known = narrow_.find(value); known != narrow_.end()) return known->second;
    const Node from = producer(value);
    const bool views = is_view(from.op) && graph_.value(value).name.empty();
    const ValueId inner = views ? narrow(from.inputs[0], reader) : value;
    GraphBuilder build = beside(graph_, reader);
    build.body = graph_.value(value).body;
    const ValueId result = views ? build.value(from.op, {inner}) : build.cast(value, Type::bf16);
    if (const std::string name = known_as(graph_, value); !name.empty())
      graph_.value(result).label = name + "_bf16";
    return narrow_[value] = result;
  }

  Graph& graph_;
  std::set<NodeId> exempt_;
  std::map<ValueId, ValueId> narrow_;
};

}  // namespace

void narrow_products(Graph& graph) {
  Narrower(graph).run(graph.root());
  verify_graph(graph, "narrow_products");
}

}  // namespace mesh
