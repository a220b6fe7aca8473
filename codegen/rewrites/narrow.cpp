#include "codegen/rewrites/narrow.h"

#include <algorithm>
#include <map>

#include "codegen/graph/builder.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"

namespace mesh {
namespace {

class Narrower {
 public:
  Narrower(Graph& graph, Type type, NarrowedProducts which) : graph_(graph), type_(type), which_(which) {}

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

  static bool is_product(const Node& node) { return definition(node.op).narrow == Narrow::multiplied; }

  /// Whether the product adds up: an outer one, that lacks no dim of an operand, would gain nothing. Attention does,
  /// and may call the numbers of its values as those of its queries.
  bool adds_up(const Node& product) const {
    if (std::holds_alternative<AttentionOp>(product.op)) return true;
    const std::vector<DimId>& kept = graph_.type(product.results[0]).dims;
    return std::ranges::any_of(graph_.type(product.inputs[0]).dims, [&](DimId dim) { return !has(kept, dim); });
  }

  /// Whether it is a parameter as it lies, or a turn's part of one.
  bool is_parameter(ValueId value) const {
    const Node& from = producer(value);
    if (const auto* read = std::get_if<ReadOp>(&from.op))
      return graph_.stored[read->stored.index].kind == StoredKind::parameter;
    if (is_view(from.op)) return is_parameter(from.inputs[0]);
    const auto* loop = std::get_if<LoopOp>(&from.op);
    if (loop == nullptr) return false;
    const auto part = std::ranges::find(loop->slices, value, &LoopOp::Slice::turn);
    return part != loop->slices.end() && is_parameter(part->stacked);
  }

  bool is_narrowed(NodeId id) const {
    const Node& node = graph_.node(id);
    if (which_ == NarrowedProducts::of_no_parameter &&
        std::ranges::any_of(node.inputs, [&](ValueId value) { return is_parameter(value); }))
      return false;
    return is_product(node) && adds_up(node) && graph_.type(node.inputs[0]).element == Type::f32;
  }

  /// The value in that type, for `reader`. Of a view it is the same view of what that views, and what was widened is
  /// there.
  ValueId narrow(ValueId value, const Node& reader) {
    if (const auto known = narrow_.find(value); known != narrow_.end()) return known->second;
    const Node from = producer(value);
    if (widens(graph_, from) && graph_.type(from.inputs[0]).element == type_) return narrow_[value] = from.inputs[0];
    const bool views = is_view(from.op) && graph_.value(value).name.empty();
    const ValueId inner = views ? narrow(from.inputs[0], reader) : value;
    GraphBuilder build = beside(graph_, reader);
    build.body = graph_.value(value).body;
    return narrow_[value] = views ? build.value(from.op, {inner}) : build.narrow(value, type_);
  }

  Graph& graph_;
  Type type_;
  NarrowedProducts which_;
  std::map<ValueId, ValueId> narrow_;
};

}  // namespace

void narrow_products(Graph& graph, Type type, NarrowedProducts which) {
  Narrower(graph, type, which).run(graph.root());
  verify_graph(graph, "narrow_products");
}

}  // namespace mesh
