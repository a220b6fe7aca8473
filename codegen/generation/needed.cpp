#include "codegen/generation/needed.h"

#include <algorithm>
#include <optional>

#include "codegen/generation/horizons.h"
#include "codegen/graph/dims.h"

namespace mesh {

namespace {

/// How many elements along a dim each op needs, back from the position: nothing is said where one needs those behind,
/// too. Ops that work element by element need what those need that read them.
class Needs {
 public:
  Needs(const Graph& graph, StoredId position)
      : graph_(graph),
        // The position is an index along no dim of the graph, so that nothing else is taken for it.
        asked_{static_cast<uint32_t>(graph.dims.size())},
        horizons_(horizons_of(graph, graph.generation->input, graph.generation->along, KnownIndex{position, asked_})) {}

  std::optional<int64_t> along(DimId dim) const {
    const auto has_dim = [&](ValueId id) { return has(graph_.type(id).dims, dim); };
    for (const Output& output : graph_.outputs)
      if (has_dim(output.value)) return std::nullopt;
    int64_t most = 1;
    for (const Node& node : graph_.nodes) {
      if (std::ranges::none_of(node.inputs, has_dim) && std::ranges::none_of(node.results, has_dim)) continue;
      const std::optional<int64_t> count = std::visit(OfNode{*this, node, dim}, node.op);
      if (!count) return std::nullopt;
      most = std::max(most, *count);
    }
    return most;
  }

 private:
  using Count = std::optional<int64_t>;

  struct OfNode {
    const Needs& in;
    const Node& node;
    const DimId dim;
    Count each() const { return 1; }
    Count all_before() const { return in.graph_.dim(dim).size; }
    Count unless(bool along, Count reduced) const { return along ? reduced : each(); }
    Count operator()(const ReadOp& op) const {
      return in.graph_.stored[op.stored.index].kind == StoredKind::cache ? each() : all_before();
    }
    Count operator()(const PositionOp&) const { return each(); }
    Count operator()(const MapOp&) const { return each(); }
    Count operator()(const BroadcastOp&) const { return each(); }
    Count operator()(const RenameOp& op) const { return unless(has(op.from, dim) || has(op.to, dim), {}); }
    Count operator()(const ReduceOp& op) const {
      return unless(has(op.dims, dim), in.where(node, 0, dim, neutral(op.reduce)));
    }
    Count operator()(const DotOp& op) const {
      return unless(has(op.dims, dim), fewer(in.where(node, 0, dim, 0), in.where(node, 1, dim, 0)));
    }
    Count operator()(const SoftmaxOp& op) const { return unless(op.dim == dim, in.counted(node, dim)); }
    Count operator()(const LogSumExpOp& op) const { return unless(has(op.dims, dim), in.counted(node, dim)); }
    Count operator()(const TakeOp& op) const {
      if (op.dim == dim) return in.is_position(node.inputs[1]) ? all_before() : Count{};
      return has(in.graph_.type(node.inputs[1]).dims, dim) ? Count{} : each();
    }
    Count operator()(const UpdateOp& op) const {
      return in.graph_.stored[op.stored.index].kind == StoredKind::cache ? each() : Count{};
    }
    Count operator()(const LoopOp& op) const { return unless(op.dim == dim, {}); }
    template <class Other>
    Count operator()(const Other&) const {
      return {};
    }
  };

  static Count fewer(Count a, Count b) { return a && b ? std::min(*a, *b) : a ? a : b; }

  /// Of an operand, the elements up to the position that are not this number for certain; nothing where those behind
  /// may be another one.
  Count where(const Node& node, size_t operand, DimId dim, double number) const {
    bool behind = false;
    int64_t count = graph_.dim(dim).size;
    for (const Settled& fact : horizons_.of[node.inputs[operand].index].settled) {
      if (fact.number != number) continue;
      if (fact.late == dim && fact.early == asked_) behind = behind || fact.by <= 1;
      if (fact.late == asked_ && fact.early == dim) count = std::min(count, std::max<int64_t>(1, fact.by));
    }
    return behind ? Count(count) : Count{};
  }
  /// Of a row of a softmax, those that may count.
  Count counted(const Node& node, DimId dim) const {
    const Count kept = node.inputs.size() > 1 ? where(node, 1, dim, 0) : Count{};
    return fewer(kept, where(node, 0, dim, neutral(Reduce::max)));
  }
  bool is_position(ValueId id) const { return horizons_.of[id.index].position == PositionSum{{{asked_, 1}}, 0}; }

  const Graph& graph_;
  const DimId asked_;
  const Horizons horizons_;
};

}  // namespace

std::vector<NeededPositions> needed_positions(const Graph& graph, StoredId position) {
  const Needs needs(graph, position);
  const int64_t positions = graph.dim(graph.generation->along).size;
  Dims dims;
  for (const Stored& stored : graph.stored)
    if (stored.kind == StoredKind::cache)
      for (size_t i = stored.stacked; i < stored.type.dims.size(); ++i)
        if (const DimId dim = stored.type.dims[i]; graph.dim(dim).size == positions && !has(dims, dim))
          dims.push_back(dim);
  std::vector<NeededPositions> needed;
  for (const DimId dim : dims)
    if (const std::optional<int64_t> count = needs.along(dim)) needed.push_back({dim, *count});
  return needed;
}

}  // namespace mesh
