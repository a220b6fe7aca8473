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
        if (const std::optional<NodeId> product = product_of_turn(id, carry))
          place_behind(graph_, id, [&] { move(id, carry, *product); });
    }
  }

 private:
  LoopOp& loop(NodeId id) { return std::get<LoopOp>(graph_.node(id).op); }
  bool is_of_body(ValueId value, BodyId body) const { return graph_.value(value).body == body; }
  const Node& maker(ValueId value) const { return graph_.node(graph_.value(value).producer); }

  /// What each turn adds to the carry, if that is a product over few rows of what is the turn's own.
  std::optional<NodeId> product_of_turn(NodeId id, const LoopOp::Carry& carry) {
    const LoopOp& of = loop(id);
    if (!only_adds_up(graph_, of, carry) || literal_number(graph_, carry.initial) != 0.0) return std::nullopt;
    const ValueId added = maker(carry.leaving).inputs[1];
    if (!is_of_body(added, of.body) || !multiplied_over(maker(added).op, of.dim)) return std::nullopt;
    if (reads_in(graph_, of, added) > 1 || reads_in(graph_, of, carry.leaving) > 1) return std::nullopt;
    int64_t rows = 1;
    for (const DimId dim : definition(maker(added).op).reduction(graph_, maker(added)).dims)
      rows *= graph_.dim(dim).size;
    if (rows > few_rows || graph_.dim(of.dim).size < 2) return std::nullopt;
    int64_t kept = 0;
    for (const ValueId operand : maker(added).inputs) {
      if (!is_of_body(operand, of.body)) return std::nullopt;
      if (is_seen_along(id, operand)) return std::nullopt;
      const ValueId whole = seen_as(id, operand);
      if (!is_kept(id, whole)) kept += graph_.elements(graph_.type(whole)) * graph_.dim(of.dim).size;
    }
    if (kept > room_) return std::nullopt;
    room_ -= kept;
    return graph_.value(added).producer;
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

  /// The same behind the loop, with its dim.
  ValueId of_all_turns(GraphBuilder& behind, NodeId id, ValueId value) {
    if (const ValueId stacked = kept(id, value)) return stacked;
    if (const ValueId of = viewed(id, value)) {
      const Op view = maker(value).op;
      return behind.value(view, {of_all_turns(behind, id, of)});
    }
    return stack_turns(graph_, id, value);
  }

  /// The carry's result is the product over all turns at once instead.
  void move(NodeId id, const LoopOp::Carry& carry, NodeId turn) {
    GraphBuilder behind = beside(graph_, graph_.node(turn));
    behind.body = graph_.node(id).body;
    const Op of_all = *multiplied_over(graph_.node(turn).op, loop(id).dim);
    std::vector<ValueId> operands = graph_.node(turn).inputs;
    for (ValueId& operand : operands) operand = of_all_turns(behind, id, operand);
    const ValueId product = behind.value(of_all, operands);
    const ValueId sum = behind.in_order(product, graph_.type(carry.result).dims);
    graph_.value(sum).take_names(graph_.value(carry.result));
    graph_.value(sum).label = graph_.value(carry.result).label;

    const NodeId addition = graph_.value(carry.leaving).producer;
    std::erase_if(loop(id).carries, [&](const LoopOp::Carry& other) { return other.result == carry.result; });
    std::erase_if(graph_.body(loop(id).body).nodes, [&](NodeId of) { return of == addition || of == turn; });
    std::erase_if(graph_.names, [&](const auto& named) {
      return named.second == carry.leaving || named.second == graph_.node(turn).results[0];
    });
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
