#include "codegen/program/memory_order.h"

#include <algorithm>
#include <optional>
#include <set>

#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"

namespace mesh {

namespace {

bool same_set(Dims a, Dims b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

class Orders {
 public:
  Orders(const Graph& graph, const Dims& taken)
      : graph_(graph), taken_(taken), orders_{graph, {}, std::vector<std::optional<Dims>>(graph.values.size())} {
    for (const Value& value : graph.values) orders_.chosen.push_back(value.type.dims);
    for (const Wanted& wanted : graph.wanted) fixed_.insert(wanted.value);
    for (const Output& output : graph.outputs)
      if (!output.stored) fixed_.insert(output.value);
    wish(graph.root());
    choose(graph.root());
  }
  std::vector<Dims> take() { return std::move(orders_.chosen); }

 private:
  void wish_for(ValueId value, const Dims& order) {
    std::optional<Dims>& wish = orders_.wished[value.index];
    if (!wish && same_set(order, graph_.type(value).dims)) wish = order;
  }

  /// What readers would like, from the last node to the first.
  void wish(BodyId body) {
    const std::vector<NodeId>& nodes = graph_.body(body).nodes;
    for (auto id = nodes.rbegin(); id != nodes.rend(); ++id) {
      const Node& node = graph_.node(*id);
      const MemoryOrder order = definition(node.op).memory_order;
      if (const auto* update = std::get_if<UpdateOp>(&node.op)) {
        wish_for(node.inputs[0], graph_.stored[update->stored.index].type.dims);
      } else if (is_elementwise(node.op) || std::holds_alternative<ReshardOp>(node.op)) {
        if (const auto& of = orders_.wished[node.results[0].index])
          for (ValueId input : node.inputs) wish_for(input, *of);
      } else if (const auto* loop = std::get_if<LoopOp>(&node.op)) {
        for (const LoopOp::Collect& collect : loop->collects)
          if (const auto& of = orders_.wished[collect.stacked.index])
            wish_for(collect.turn, filtered(*of, [&](DimId dim) { return dim != loop->dim; }));
        wish(loop->body);
      } else if (order.wish) {
        order.wish(graph_, node, [this](ValueId value, const Dims& dims) { wish_for(value, dims); });
      }
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

  Dims& of(ValueId value) { return orders_.chosen[value.index]; }

  void choose(const Node& node) {
    if (is_elementwise(node.op)) return choose_elementwise(node);
    const auto choose = MemoryOrder(definition(node.op).memory_order).choose;
    if (!choose) return;
    for (size_t i = 0; i < node.results.size(); ++i)
      if (!fixed_.contains(node.results[i])) of(node.results[i]) = choose(orders_, node, i);
    if (std::holds_alternative<ReshardOp>(node.op) && node.body != graph_.root())
      std::ranges::stable_partition(of(node.results[0]), [&](DimId dim) { return has(taken_, dim); });
  }

  /// As the first operand of all dims lies whose order memory dictates, else as readers like.
  void choose_elementwise(const Node& node) {
    const ValueId result = node.results[0];
    const auto leads = std::find_if(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return of(input).size() == of(result).size() && is_anchored(input);
    });
    if (leads != node.inputs.end()) {
      of(result) = of(*leads);
      for (ValueId input : node.inputs) adopt(input, of(result));
    } else if (orders_.wished[result.index]) {
      of(result) = *orders_.wished[result.index];
    }
  }

  static MemoryOrder::Kind kind(const Node& node) { return MemoryOrder(definition(node.op).memory_order).kind; }

  /// Whether something in memory dictates the order, not just how a formula is written.
  bool is_anchored(ValueId value) const {
    const Node& node = producer(value);
    if (!is_elementwise(node.op)) return kind(node) == MemoryOrder::Kind::anchored;
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return graph_.type(input).dims.size() == graph_.type(value).dims.size() && is_anchored(input);
    });
  }

  /// Gives a value that nothing dictates the order of the others that it meets.
  void adopt(ValueId value, const Dims& order) {
    if (is_anchored(value) || fixed_.contains(value) || !same_set(of(value), order)) return;
    of(value) = order;
    if (is_elementwise(producer(value).op))
      for (ValueId input : producer(value).inputs) adopt(input, order);
  }

  const Node& producer(ValueId value) const { return graph_.node(graph_.value(value).producer); }

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
  const Dims& taken_;
  std::set<ValueId> fixed_;
  MemoryOrders orders_;
};

}  // namespace

std::vector<std::vector<DimId>> memory_orders(const Graph& graph, const std::vector<DimId>& taken) {
  return Orders(graph, taken).take();
}

}  // namespace mesh
