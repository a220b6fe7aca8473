#include "codegen/generation/horizons.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "codegen/graph/op.h"

namespace mesh {
namespace {

class IndexWalk {
 public:
  IndexWalk(const Graph& graph, StoredId input, DimId dim, std::optional<KnownIndex> index)
      : graph_(graph), input_(input), dim_(dim), index_(index) {
    found.of.resize(graph.values.size());
    body(graph.root());
  }
  Horizons found;

 private:
  void body(BodyId id) {
    for (const NodeId node : graph_.body(id).nodes) visit(node);
  }

  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (const auto* loop = std::get_if<LoopOp>(&node.op)) return visit(id, *loop);
    if (const auto* read = std::get_if<ReadOp>(&node.op)) {
      if (read->stored == input_) at(node.results[0]).upto[dim_] = 0;
      if (index_ && read->stored == index_->input) at(node.results[0]).position = PositionSum{{{index_->along, 1}}, 0};
      if (read->stored == input_ || (index_ && read->stored == index_->input)) return;
    }
    std::vector<Horizon> operands;
    for (const ValueId input : node.inputs) operands.push_back(at(input));
    const std::vector<Horizon> results = definition(node.op).causality(graph_, node, operands);
    for (size_t i = 0; i < node.results.size(); ++i) {
      blame(id, operands, results[i]);
      at(node.results[i]) = results[i];
    }
  }

  void blame(NodeId node, std::span<const Horizon> operands, const Horizon& result) {
    if (!result.is_causal() && std::ranges::all_of(operands, &Horizon::is_causal)) found.culprits.emplace(node, result);
  }

  /// Inside, the loop's dim is one of every value: that of the turn.
  void visit(NodeId node, const LoopOp& loop) {
    for (const LoopOp::Slice& slice : loop.slices) at(slice.turn) = at(slice.stacked);
    if (loop.index) at(loop.index).position = PositionSum{{{loop.dim, 1}}, 0};
    for (const LoopOp::Carry& carry : loop.carries) at(carry.entering) = at(carry.initial);
    constexpr int most = 16;  // a bound that still grows then grows with every turn
    int round = 0;
    do body(loop.body);
    while (enter_again(loop, ++round >= most));
    Horizon done;
    if (const ValueId condition = until(graph_, loop)) done = at(condition);
    for (const LoopOp::Carry& carry : loop.carries) {
      const std::array all{at(carry.initial), at(carry.leaving), done};
      at(carry.result) = after(loop, all);
      blame(node, all, at(carry.result));
    }
    for (const LoopOp::Collect& collect : loop.collects)
      at(collect.stacked) = joined(std::array{at(collect.turn), done});
  }

  /// Carries enter as they begin, or as the turn before left them. Whether that is news.
  bool enter_again(const LoopOp& loop, bool too_often) {
    bool news = false;
    for (const LoopOp::Carry& carry : loop.carries) {
      const Horizon before = shifted(at(carry.leaving), loop.dim, loop.dim, loop.reverse ? 1 : -1);
      Horizon entering = joined(std::array{at(carry.initial), before});
      if (too_often && entering != at(carry.entering))
        entering = {.everything = fmt::format("each turn of `repeat {}` sees more of what is still to come",
                                              graph_.dim(loop.dim).name)};
      news = news || entering != at(carry.entering);
      at(carry.entering) = std::move(entering);
    }
    return news;
  }

  Horizon after(const LoopOp& loop, std::span<const Horizon> all) {
    const std::string why =
        fmt::format("after the last turn of `repeat {}` it has seen all of it", graph_.dim(loop.dim).name);
    Horizon horizon = without_dim(joined(all), loop.dim, why);
    horizon.position.reset();
    return horizon;
  }

  Horizon& at(ValueId id) { return found.of[id.index]; }

  const Graph& graph_;
  const StoredId input_;
  const DimId dim_;
  const std::optional<KnownIndex> index_;
};

}  // namespace

Horizons horizons_of(const Graph& graph, StoredId input, DimId dim, std::optional<KnownIndex> index) {
  return IndexWalk(graph, input, dim, index).found;
}

}  // namespace mesh
