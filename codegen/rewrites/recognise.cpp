#include "codegen/rewrites/recognise.h"

#include <algorithm>
#include <map>
#include <optional>

#include "codegen/graph/band.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"
#include "codegen/graph/ops/definitions.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"

namespace mesh {
namespace {

using F = MapFunction;

class Recogniser {
 public:
  Recogniser(Graph& graph, const MaySplit& may_split) : graph_(graph), may_split_(may_split) {
    std::vector<ValueId> names;
    for (auto& [name, value] : graph.names) names.push_back(value);
    for_each_use(graph, [&](ValueId& id) {
      if (id) ++uses_[id];
    });
    for (ValueId id : names) --uses_[id];  // a name alone is no use
  }

  /// The parts of dot[key](softmax[key](mask(dot[head_dim](q, k) * scale, keep)), v), if `id` is that.
  struct Match {
    AttentionOp op;
    ValueId q, k, v;
    std::vector<ValueId> inner = {};  // what is no value any longer
  };
  std::optional<Match> match(NodeId id) const {
    const Node& outer = graph_.node(id);
    const DotOp* sum = std::get_if<DotOp>(&outer.op);
    if (!sum || sum->dims.size() != 1) return std::nullopt;
    Match found{};
    found.op.key = sum->dims[0];
    found.v = outer.inputs[1];
    const Node* soft = only_user_of<SoftmaxOp>(outer.inputs[0]);
    if (!soft || std::get<SoftmaxOp>(soft->op).dim != found.op.key) return std::nullopt;
    const ValueType weight = graph_.type(outer.inputs[0]);
    found.inner = {outer.inputs[0], soft->inputs[0]};
    double scale = 1;
    const Node* product = scaled_product(soft->inputs[0], scale);
    if (!product) return std::nullopt;
    if (product->results[0] != soft->inputs[0]) found.inner.push_back(product->results[0]);
    const DotOp& score = std::get<DotOp>(product->op);
    found.op.head_dim = score.dims[0];
    found.op.scale = scale;
    found.q = product->inputs[0];
    found.k = product->inputs[1];
    return complete(found, *soft, weight) ? std::optional(found) : std::nullopt;
  }

 private:
  const Node& producer(ValueId id) const { return graph_.node(graph_.value(id).producer); }

  template <class T>
  const Node* only_user_of(ValueId id) const {
    const Node& node = producer(id);
    const auto uses = uses_.find(id);
    return std::holds_alternative<T>(node.op) && uses != uses_.end() && uses->second == 1 ? &node : nullptr;
  }

  /// dot[head_dim](q, k), times a number, on either side, or over one.
  const Node* scaled_product(ValueId id, double& scale) const {
    if (const Node* map = only_user_of<MapOp>(id)) {
      const F function = std::get<MapOp>(map->op).function;
      if (function != F::multiply && function != F::divide) return nullptr;
      const bool in_front = function == F::multiply && literal_number(graph_, map->inputs[0]);
      const auto number = literal_number(graph_, map->inputs[in_front ? 0 : 1]);
      if (!number) return nullptr;
      scale = function == F::divide ? 1 / *number : *number;
      id = map->inputs[in_front ? 1 : 0];
    }
    const Node* product = only_user_of<DotOp>(id);
    return product && std::get<DotOp>(product->op).dims.size() == 1 ? product : nullptr;
  }

  bool complete(Match& found, const Node& soft, const ValueType& weight) const {
    using ops::without;
    AttentionOp& op = found.op;
    const std::vector<DimId>&q = graph_.type(found.q).dims, &k = graph_.type(found.k).dims,
          &v = graph_.type(found.v).dims;
    if (has(q, op.key) || !has(k, op.key) || !has(v, op.key)) return false;
    // v brings one dim of its own. The query's dim is one that keys lack; along others that they lack, queries share
    // them.
    const std::vector<DimId> rows = without(without(q, {op.head_dim}), k), own = without(v, weight.dims);
    if (own.size() != 1 || rows.empty()) return false;
    op.value_dim = own[0];
    std::vector<DimId> out = without(q, {op.head_dim});
    out.push_back(op.value_dim);
    if (may_split_(q, op.head_dim, {}) || may_split_(k, op.head_dim, {})) return false;
    if (may_split_(v, op.value_dim, {}) || may_split_(out, op.value_dim, {})) return false;
    op.query = *std::ranges::max_element(
        rows, {}, [&](DimId dim) { return std::pair(dim != graph_.sample_dim, graph_.dim(dim).size); });
    if (soft.inputs.size() > 1 && !masked(op, soft.inputs[1])) return false;
    if (!has(rows, op.query) || may_split_(k, op.key, op.query)) return false;
    // Every other dim of keys and values is one of the query's, and the same.
    const std::vector<DimId> of_keys = without(k, {op.key, op.head_dim}),
                             of_values = without(v, {op.key, op.value_dim});
    return without(of_keys, q).empty() && without(of_keys, of_values).empty() && without(of_values, of_keys).empty();
  }

  /// Whether a mask is one of positions that leaves each query the keys so far from it, and some query any.
  bool masked(AttentionOp& op, ValueId keep) const {
    const std::optional<Band> band = band_of(graph_, keep, op.key);
    if (!band || (band->least && band->most && *band->least > *band->most)) return false;
    op.query = band->first;
    op.least = band->least;
    op.most = band->most;
    return band->meets({0, graph_.dim(op.query).size}, {0, graph_.dim(op.key).size});
  }

  Graph& graph_;
  const MaySplit& may_split_;
  std::map<ValueId, int> uses_;
};

}  // namespace

void recognise(Graph& graph, const MaySplit& may_split) {
  const Recogniser recogniser(graph, may_split);
  expand_nodes(graph, [&](GraphBuilder& build, NodeId id) -> std::vector<ValueId> {
    const auto found = recogniser.match(id);
    if (!found) return {};
    const NodeId attention = build.append(found->op, {found->q, found->k, found->v});
    const ValueId result = build.graph.node(attention).results[0];
    for (const ValueId inner : found->inner) build.graph.value(result).add_inner(build.graph.value(inner));
    return {result};
  });
  verify_graph(graph, "recognise");
}

}  // namespace mesh
