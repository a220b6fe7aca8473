#include "codegen/program/memory_order.h"

#include <algorithm>
#include <optional>
#include <set>

#include "codegen/graph/dims.h"

namespace mesh {

namespace {

bool same_set(Dims a, Dims b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

class Orders {
 public:
  explicit Orders(const Graph& graph) : graph_(graph), wish_(graph.values.size()), order_(graph.values.size()) {
    for (const Value& value : graph.values) order_[static_cast<size_t>(&value - graph.values.data())] = value.type.dims;
    for (const Wanted& wanted : graph.wanted) fixed_.insert(wanted.value);
    for (const Output& output : graph.outputs)
      if (!output.stored) fixed_.insert(output.value);
    wish(graph.root());
    choose(graph.root());
  }
  std::vector<Dims> take() { return std::move(order_); }

 private:
  void wish_for(ValueId value, const Dims& order) {
    std::optional<Dims>& wish = wish_[value.index];
    if (!wish && same_set(order, graph_.type(value).dims)) wish = order;
  }

  /// What readers would like, from the last node to the first.
  void wish(BodyId body) {
    const std::vector<NodeId>& nodes = graph_.body(body).nodes;
    for (auto id = nodes.rbegin(); id != nodes.rend(); ++id) {
      const Node& node = graph_.node(*id);
      if (const auto* update = std::get_if<UpdateOp>(&node.op)) {
        wish_for(node.inputs[0], graph_.stored[update->stored.index].type.dims);
      } else if (std::holds_alternative<MapOp>(node.op) || std::holds_alternative<ReshardOp>(node.op)) {
        if (const auto& of = wish_[node.results[0].index])
          for (ValueId input : node.inputs) wish_for(input, *of);
      } else if (const auto* merge = std::get_if<MergeOp>(&node.op);
                 merge && std::holds_alternative<ConcatOp>(producer(node.inputs[0]).op)) {
        wish_for(node.inputs[0], replaced(graph_.type(node.results[0]).dims, {merge->to}, merge->from));
      } else if (const auto* dot = std::get_if<DotOp>(&node.op)) {
        wish_for_product(node, dot->dims);
      } else if (const auto* loop = std::get_if<LoopOp>(&node.op)) {
        for (const LoopOp::Collect& collect : loop->collects)
          if (const auto& of = wish_[collect.stacked.index])
            wish_for(collect.turn, filtered(*of, [&](DimId dim) { return dim != loop->dim; }));
        wish(loop->body);
      }
    }
  }

  /// Contracted dims side by side, as they lie in the other operand, where they do not do so by themselves.
  void wish_for_product(const Node& node, const Dims& contracted) {
    for (size_t side = 0; side < 2; ++side) {
      const Dims &own = graph_.type(node.inputs[side]).dims, &other = graph_.type(node.inputs[1 - side]).dims;
      const auto is_inner = [&](DimId dim) { return has(contracted, dim); };
      const Dims inner = filtered(other, is_inner);
      if (is_stretch(own, inner) || !is_stretch(other, inner)) continue;
      Dims order = filtered(own, [&](DimId dim) { return !is_inner(dim); });
      order.insert(order.end(), inner.begin(), inner.end());
      wish_for(node.inputs[side], order);
    }
  }

  void choose(BodyId body) {
    for (NodeId id : graph_.body(body).nodes) {
      const Node& node = graph_.node(id);
      if (const auto* loop = std::get_if<LoopOp>(&node.op)) choose_loop(*loop);
      else if (node.results.size() == 1 && fixed_.contains(node.results[0])) continue;
      else choose(node);
    }
  }

  Dims& of(ValueId value) { return order_[value.index]; }

  void choose(const Node& node) {
    if (const auto* dot = std::get_if<DotOp>(&node.op)) {
      of(node.results[0]) = product_order(node, dot->dims);
    } else if (std::holds_alternative<MapOp>(node.op)) {
      const ValueId result = node.results[0];
      const auto leads = std::find_if(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
        return of(input).size() == of(result).size() && is_anchored(input);
      });
      if (leads != node.inputs.end()) {
        of(result) = of(*leads);
        for (ValueId input : node.inputs) adopt(input, of(result));
      } else if (wish_[result.index]) {
        of(result) = *wish_[result.index];
      }
    } else if (const auto* reduce = std::get_if<ReduceOp>(&node.op)) {
      of(node.results[0]) = filtered(of(node.inputs[0]), [&](DimId dim) { return !has(reduce->dims, dim); });
    } else if (const auto* take = std::get_if<TakeOp>(&node.op)) {
      of(node.results[0]) = of(node.inputs[1]);
      for (DimId dim : of(node.inputs[0]))
        if (dim != take->dim) of(node.results[0]).push_back(dim);
    } else if (const auto* rename = std::get_if<RenameOp>(&node.op)) {
      of(node.results[0]) = of(node.inputs[0]);
      for (DimId& dim : of(node.results[0])) dim = renamed(*rename, dim);
    } else if (const auto* split = std::get_if<SplitOp>(&node.op)) {
      replace(node, {split->from}, split->to);
    } else if (const auto* merge = std::get_if<MergeOp>(&node.op)) {
      replace(node, merge->from, {merge->to});
    } else if (const auto* slice = std::get_if<SliceOp>(&node.op)) {
      replace(node, {slice->from}, slice->to ? Dims{slice->to} : Dims{});
    } else if (const auto* pad = std::get_if<PadOp>(&node.op)) {
      replace(node, {pad->from}, {pad->to});
    } else if (std::holds_alternative<ReshardOp>(node.op) || std::holds_alternative<ShiftOp>(node.op) ||
               std::holds_alternative<CumulativeOp>(node.op)) {
      of(node.results[0]) = of(node.inputs[0]);
    } else if (const auto* concat = std::get_if<ConcatOp>(&node.op)) {
      const auto& wish = wish_[node.results[0].index];
      if (wish) of(node.results[0]) = *wish;
      else if (concat->parts[0]) replace(node, {concat->parts[0]}, {concat->to});
    } else if (const auto* sort = std::get_if<SortOp>(&node.op)) {
      for (ValueId result : node.results)
        if (!fixed_.contains(result)) of(result) = replaced(of(node.inputs[0]), {sort->dim}, {sort->to});
    } else if (const auto* place = std::get_if<PlaceOp>(&node.op)) {
      of(node.results[0]) = replaced(of(node.inputs[1]), {place->from}, {place->to});
    }
  }

  /// Whether something in memory dictates the order, not just how a formula is written.
  bool is_anchored(ValueId value) const {
    const Node& node = producer(value);
    if (std::holds_alternative<BroadcastOp>(node.op) || std::holds_alternative<LiteralOp>(node.op)) return false;
    if (!std::holds_alternative<MapOp>(node.op)) return true;
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return graph_.type(input).dims.size() == graph_.type(value).dims.size() && is_anchored(input);
    });
  }

  /// Gives a value that nothing dictates the order of the others that it meets.
  void adopt(ValueId value, const Dims& order) {
    if (is_anchored(value) || fixed_.contains(value) || !same_set(of(value), order)) return;
    of(value) = order;
    if (std::holds_alternative<MapOp>(producer(value).op))
      for (ValueId input : producer(value).inputs) adopt(input, order);
  }

  const Node& producer(ValueId value) const { return graph_.node(graph_.value(value).producer); }

  /// The order with `from` (the first of which keeps the place) replaced by `to`.
  static Dims replaced(const Dims& order, const Dims& from, const Dims& to) {
    Dims result;
    for (DimId dim : order) {
      if (dim == from[0]) result.insert(result.end(), to.begin(), to.end());
      else if (!has(from, dim)) result.push_back(dim);
    }
    return result;
  }

  void replace(const Node& node, const Dims& from, const Dims& to) {
    of(node.results[0]) = replaced(of(node.inputs[0]), from, to);
  }

  /// The wish, else the logical order, where that is plain; else loops' dims, rows, columns.
  Dims product_order(const Node& node, const Dims& contracted) {
    const Dims &a = of(node.inputs[0]), &b = of(node.inputs[1]);
    const auto plain = [&](const Dims& c) {
      const auto is_batch = [&](DimId dim) { return has(a, dim) && has(b, dim); };
      const Dims rows = filtered(c, [&](DimId dim) { return !has(b, dim); });
      const Dims cols = filtered(c, [&](DimId dim) { return !has(a, dim); });
      return (c.empty() || !is_batch(c.back())) && is_stretch(c, rows) && is_stretch(c, cols) && is_stretch(a, rows) &&
             is_stretch(b, cols);
    };
    const std::optional<Dims>& wish = wish_[node.results[0].index];
    if (wish && plain(*wish)) return *wish;
    const Dims& logical = graph_.type(node.results[0]).dims;
    if (plain(logical)) return logical;
    Dims order = filtered(a, [&](DimId dim) { return has(b, dim) && !has(contracted, dim); });
    for (DimId dim : a)
      if (!has(b, dim)) order.push_back(dim);
    for (DimId dim : b)
      if (!has(a, dim)) order.push_back(dim);
    return order;
  }

  void choose_loop(const LoopOp& loop) {
    const auto without_dim = [&](const Dims& dims) {
      return filtered(dims, [&](DimId dim) { return dim != loop.dim; });
    };
    for (const LoopOp::Carry& carry : loop.carries) of(carry.entering) = of(carry.result) = of(carry.initial);
    for (const LoopOp::Slice& slice : loop.slices) of(slice.turn) = without_dim(of(slice.stacked));
    choose(loop.body);
    for (const LoopOp::Collect& collect : loop.collects) {
      if (fixed_.contains(collect.stacked)) continue;
      of(collect.stacked) = of(collect.turn);
      of(collect.stacked).insert(of(collect.stacked).begin(), loop.dim);
    }
  }

  const Graph& graph_;
  std::set<ValueId> fixed_;
  std::vector<std::optional<Dims>> wish_;
  std::vector<Dims> order_;
};

}  // namespace

std::vector<std::vector<DimId>> memory_orders(const Graph& graph) { return Orders(graph).take(); }

}  // namespace mesh
