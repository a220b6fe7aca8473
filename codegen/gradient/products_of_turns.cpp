#include "codegen/gradient/products_of_turns.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "codegen/gradient/place_behind.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"

namespace mesh {
namespace {

// Of a turn, at most. To read and write a sum of many numbers takes as long as some 80 rows take to multiply; of a step
// of recurrent cells it was a third with 16 rows, a tenth with 64, and nothing any more with 512.
constexpr int64_t few_rows = 256;

class ProductsOfTurns {
 public:
  ProductsOfTurns(Graph& graph, const std::set<DimId>& as_they_are) : graph_(graph), as_they_are_(as_they_are) {}

  /// Inner loops first: what is one product behind a loop may be one of the turns of the loop around it.
  void run(BodyId body) {
    for (const NodeId id : std::vector<NodeId>(graph_.body(body).nodes)) {
      if (!std::holds_alternative<LoopOp>(graph_.node(id).op)) continue;
      run(loop(id).body);
      // What the forward pass adds up turn by turn, and computes so once more, is as the model says, and rules name it.
      if (!is_backward_loop(graph_.node(id)) || as_they_are_.contains(loop(id).dim)) continue;
      room_ = 0;
      for (const LoopOp::Slice& slice : loop(id).slices) room_ += graph_.elements(graph_.type(slice.stacked));
      const std::vector<LoopOp::Carry> carries = loop(id).carries;
      for (const LoopOp::Carry& carry : carries)
        if (const std::optional<Sum> sum = sum_of_turn(id, carry))
          place_behind(graph_, id, [&] { move(id, carry, *sum); });
    }
  }

 private:
  LoopOp& loop(NodeId id) { return std::get<LoopOp>(graph_.node(id).op); }
  bool is_of_body(ValueId value, BodyId body) const { return graph_.value(value).body == body; }
  const Node& maker(ValueId value) const { return graph_.node(graph_.value(value).producer); }

  /// What a turn adds to a carry: a product each time it reads the weight.
  struct Sum {
    std::vector<NodeId> products, additions;
  };

  /// What each turn adds to the carry, if those are products over few rows of what is the turn's own.
  std::optional<Sum> sum_of_turn(NodeId id, const LoopOp::Carry& carry) {
    const LoopOp& of = loop(id);
    if (!only_adds_up(graph_, of, carry) || literal_number(graph_, carry.initial) != 0.0) return std::nullopt;
    if (reads_in(graph_, of, carry.leaving) > 1 || graph_.dim(of.dim).size < 2) return std::nullopt;
    Sum sum{{}, {graph_.value(carry.leaving).producer}};
    if (!is_sum_of_products(of, maker(carry.leaving).inputs[1], sum)) return std::nullopt;
    std::set<ValueId> more;
    for (const NodeId product : sum.products) {
      if (rows(product) > few_rows) return std::nullopt;
      for (const ValueId operand : graph_.node(product).inputs) {
        if (!is_of_body(operand, of.body) || is_seen_along(id, operand)) return std::nullopt;
        if (const ValueId whole = seen_as(id, operand); !is_kept(id, whole)) more.insert(whole);
      }
    }
    int64_t kept = 0;
    for (const ValueId whole : more) kept += graph_.elements(graph_.type(whole)) * graph_.dim(of.dim).size;
    if (kept > room_) return std::nullopt;
    room_ -= kept;
    return sum;
  }

  /// Whether nothing but the sum reads the products and what they add up to on the way.
  bool is_sum_of_products(const LoopOp& of, ValueId added, Sum& sum) const {
    if (!is_of_body(added, of.body) || reads_in(graph_, of, added) > 1) return false;
    const NodeId id = graph_.value(added).producer;
    if (is_addition(maker(added).op)) {
      sum.additions.push_back(id);
      return std::ranges::all_of(maker(added).inputs, [&](ValueId part) { return is_sum_of_products(of, part, sum); });
    }
    sum.products.push_back(id);
    return multiplied_over(maker(added).op, of.dim).has_value();
  }

  int64_t rows(NodeId product) const {
    const Node& of = graph_.node(product);
    int64_t rows = 1;
    for (const DimId dim : definition(of.op).reduction(graph_, of).dims) rows *= graph_.dim(dim).size;
    return rows;
  }

  /// What a value of a turn is a view of, if of something of the same turn that is not kept itself.
  ValueId viewed(NodeId id, ValueId value) {
    const bool views = is_view(maker(value).op) && is_of_body(maker(value).inputs[0], loop(id).body);
    return views && !is_kept(id, value) ? maker(value).inputs[0] : ValueId{};
  }

  /// What a value of a turn is a view of in the end, itself if of nothing.
  ValueId seen_as(NodeId id, ValueId value) {
    while (const ValueId of = viewed(id, value)) value = of;
    return value;
  }

  /// Whether a value of a turn, or one that it is a view of, has the loop's dim: of all turns it would have it twice.
  bool is_seen_along(NodeId id, ValueId value) {
    for (; value; value = viewed(id, value))
      if (std::ranges::count(graph_.type(value).dims, loop(id).dim) > 0) return true;
    return false;
  }

  /// Where a value of a turn stands among those of all turns, if it is there.
  ValueId kept(NodeId id, ValueId value) {
    for (const LoopOp::Slice& slice : loop(id).slices)
      if (slice.turn == value) return slice.stacked;
    for (const LoopOp::Collect& collect : loop(id).collects)
      if (collect.turn == value) return collect.stacked;
    return {};
  }
  bool is_kept(NodeId id, ValueId value) { return bool(kept(id, value)); }

  /// The product behind the loop, over its dim too.
  ValueId of_all_turns(GraphBuilder& behind, NodeId id, NodeId turn) {
    const Op of_all = *multiplied_over(graph_.node(turn).op, loop(id).dim);
    std::vector<ValueId> operands = graph_.node(turn).inputs;
    for (ValueId& operand : operands) operand = of_all_turns(behind, id, operand);
    return behind.value(of_all, operands);
  }

  /// The same behind the loop, with its dim.
  ValueId of_all_turns(GraphBuilder& behind, NodeId id, ValueId value) {
    if (const ValueId stacked = kept(id, value)) return stacked;
    if (const ValueId of = viewed(id, value)) {
      const Op view = maker(value).op;
      return behind.value(view, {of_all_turns(behind, id, of)});
    }
    return stack_turns(graph_, id, value);
  }

  /// The carry's result is the sum of the products over all turns at once instead.
  void move(NodeId id, const LoopOp::Carry& carry, const Sum& of_turn) {
    ValueId sum;
    for (const NodeId turn : of_turn.products) {
      GraphBuilder behind = beside(graph_, graph_.node(turn));
      behind.body = graph_.node(id).body;
      const ValueId product = of_all_turns(behind, id, turn);
      const ValueId part = behind.in_order(product, graph_.type(carry.result).dims);
      sum = sum ? behind.add(sum, part) : part;
    }
    graph_.value(sum).take_names(graph_.value(carry.result));
    graph_.value(sum).label = graph_.value(carry.result).label;

    std::set<NodeId> gone(of_turn.products.begin(), of_turn.products.end());
    gone.insert(of_turn.additions.begin(), of_turn.additions.end());
    std::erase_if(loop(id).carries, [&](const LoopOp::Carry& other) { return other.result == carry.result; });
    std::erase_if(graph_.body(loop(id).body).nodes, [&](NodeId of) { return gone.contains(of); });
    std::erase_if(graph_.names, [&](const auto& named) { return gone.contains(graph_.value(named.second).producer); });
    for_each_use(graph_, [&](ValueId& value) {
      if (value == carry.result) value = sum;
    });
    connect_loop(graph_.node(id));
  }

  Graph& graph_;
  const std::set<DimId>& as_they_are_;
  int64_t room_ = 0;  // elements that may be kept of the turns of the loop
};

}  // namespace

void multiply_behind_loops(Graph& graph, const std::set<DimId>& as_they_are) {
  ProductsOfTurns(graph, as_they_are).run(graph.root());
}

}  // namespace mesh
