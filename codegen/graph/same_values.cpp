#include "codegen/graph/same_values.h"

#include <fmt/format.h>

#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"

namespace mesh {

class SameValues::Walk {
 public:
  Walk(SameValues& same, const Graph& graph) : same_(same), graph_(graph), numbers_(graph.values.size(), -1) {
    body(graph.root(), 0);
  }
  std::vector<int> numbers() { return std::move(numbers_); }

 private:
  int& of(ValueId id) { return numbers_[id.index]; }

  void body(BodyId id, int depth) {
    for (const NodeId node : graph_.body(id).nodes) visit(graph_.node(node), depth);
  }

  void visit(const Node& node, int depth) {
    if (std::holds_alternative<ReshardOp>(node.op)) {
      of(node.results[0]) = of(node.inputs[0]);
      return;
    }
    if (const auto* op = std::get_if<LoopOp>(&node.op)) return loop(*op, depth);
    const std::optional<double> count = counted(graph_, node);  // one graph may have folded it
    std::string key = op_key(graph_, count ? Op(LiteralOp{*count}) : node.op);
    for (const ValueId input : count ? std::vector<ValueId>() : node.inputs) key += fmt::format(" {}", of(input));
    for (size_t i = 0; i < node.results.size(); ++i)
      of(node.results[i]) =
          same_.intern(fmt::format("{} -> {} {}", key, i, to_string(graph_, graph_.type(node.results[i]))));
  }

  /// What a carry enters with has a number of its place alone: loops are told apart by what leaves them.
  void loop(const LoopOp& op, int depth) {
    for (size_t i = 0; i < op.carries.size(); ++i)
      of(op.carries[i].entering) =
          same_.intern(fmt::format("carry {} at {} from {}", i, depth, of(op.carries[i].initial)));
    for (const LoopOp::Slice& slice : op.slices)
      of(slice.turn) = same_.intern(fmt::format("slice at {} of {}", depth, of(slice.stacked)));
    if (op.index) of(op.index) = same_.intern(fmt::format("turn at {}", depth));
    body(op.body, depth + 1);
    std::string key = fmt::format("loop {}{}", graph_.dim(op.dim).name, op.reverse ? " back" : "");
    for (const LoopOp::Carry& carry : op.carries) key += fmt::format(" {}:{}", of(carry.initial), of(carry.leaving));
    if (const ValueId done = until(graph_, op)) key += fmt::format(" until {}", of(done));
    const int whole = same_.intern(key);
    for (size_t i = 0; i < op.carries.size(); ++i)
      of(op.carries[i].result) = same_.intern(fmt::format("result {} of {}", i, whole));
    for (const LoopOp::Collect& collect : op.collects)
      of(collect.stacked) = same_.intern(fmt::format("collected {} of {}", of(collect.turn), whole));
  }

  SameValues& same_;
  const Graph& graph_;
  std::vector<int> numbers_;
};

std::vector<int> SameValues::number(const Graph& graph) { return Walk(*this, graph).numbers(); }

}  // namespace mesh
