#include "codegen/rewrites/reassociate.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"

namespace mesh {
namespace {

const Node* sum_of(const Graph& graph, ValueId value) {
  const Node& node = graph.node(graph.value(value).producer);
  return is_addition(node.op) ? &node : nullptr;
}

bool same_dims_of(std::vector<DimId> a, std::vector<DimId> b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b;
}

class Sums {
 public:
  Sums(Graph& graph, const std::function<int(ValueId)>& kind) : graph_(graph), kind_(kind) {
    const auto count = [&](ValueId& value) { ++uses_[value]; };
    for (const Body& body : graph.bodies)
      for (const NodeId id : body.nodes) for_each_read(graph.node(id), count);
    for_each_caller(graph, count);
    for (const Body& body : graph.bodies)
      for (const NodeId id : body.nodes) find_inner(graph.node(id));
  }

  bool run() {
    bool changed = false;
    expand_nodes(graph_, [&](GraphBuilder& build, NodeId id) -> std::vector<ValueId> {
      const Node node = graph_.node(id);
      if (node.results.size() != 1 || inner_.contains(node.results[0]) || !sum_of(graph_, node.results[0])) return {};
      const std::optional<Terms> terms = terms_of(node.results[0]);
      if (!terms) return {};
      changed = true;
      const ValueId sum = add(build, *terms);
      Value& value = graph_.value(sum);
      const Value& before = graph_.value(node.results[0]);
      value.type = before.type;
      if (value.label.empty()) value.label = before.label;
      return {sum};
    });
    if (changed) remove_dead(graph_);
    verify_graph(graph_, "reassociate");
    return changed;
  }

 private:
  struct Terms {
    std::map<int, std::vector<ValueId>> of_kind;
    std::vector<ValueId> plain;
  };

  /// Sums that only another sum reads; what is added to a fixed value is a sum of its own.
  void find_inner(const Node& node) {
    if (node.results.size() != 1 || !sum_of(graph_, node.results[0]) || kind_(node.inputs[0]) == fixed_term) return;
    for (const ValueId input : node.inputs) {
      const Node* sum = sum_of(graph_, input);
      if (sum && uses_[input] == 1 && graph_.value(input).name.empty() && sum->body == node.body &&
          together(sum->part, node.part) && kind_(sum->inputs[0]) != fixed_term &&
          graph_.type(input).element == graph_.type(node.results[0]).element &&
          same_dims_of(graph_.type(input).dims, graph_.type(node.results[0]).dims))
        inner_.insert(input);
    }
  }

  /// The terms that `value` adds up, and of each sum on the way which it adds up itself.
  std::vector<ValueId> collect(ValueId value, std::set<std::vector<ValueId>>& together) const {
    std::vector<ValueId> all;
    for (const ValueId input : sum_of(graph_, value)->inputs) {
      const std::vector<ValueId> part = inner_.contains(input) ? collect(input, together) : std::vector{input};
      all.insert(all.end(), part.begin(), part.end());
    }
    std::vector<ValueId> sorted = all;
    std::ranges::sort(sorted);
    together.insert(sorted);
    return all;
  }

  /// Nothing where the terms of each kind are added first already.
  std::optional<Terms> terms_of(ValueId value) const {
    if (kind_(sum_of(graph_, value)->inputs[0]) == fixed_term) return {};
    std::set<std::vector<ValueId>> together;
    const std::vector<ValueId> all = collect(value, together);
    Terms terms;
    for (const ValueId term : all) {
      if (!same_dims_of(graph_.type(term).dims, graph_.type(value).dims)) return {};
      const int kind = kind_(term);
      (kind == plain_term ? terms.plain : terms.of_kind[kind]).push_back(term);
    }
    const bool apart = std::ranges::any_of(terms.of_kind, [&](auto of) {
      std::ranges::sort(of.second);
      return of.second.size() > 1 && !together.contains(of.second);
    });
    return apart ? std::optional(terms) : std::nullopt;
  }

  static ValueId add(GraphBuilder& build, const Terms& terms) {
    const auto added = [&](const std::vector<ValueId>& all) {
      ValueId sum = all[0];
      for (size_t i = 1; i < all.size(); ++i) sum = build.add(sum, all[i]);
      return sum;
    };
    std::vector<ValueId> parts = terms.plain;
    for (const auto& [kind, of] : terms.of_kind) parts.push_back(added(of));
    return added(parts);
  }

  Graph& graph_;
  const std::function<int(ValueId)>& kind_;
  std::map<ValueId, int> uses_;
  std::set<ValueId> inner_;
};

}  // namespace

bool reassociate(Graph& graph, const std::function<int(ValueId)>& kind) { return Sums(graph, kind).run(); }

}  // namespace mesh
