#include "codegen/elaborate/manual_spread.h"

#include <algorithm>
#include <stdexcept>

#include "codegen/elaborate/dims.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"

namespace mesh::elaboration {
namespace {

class Spread {
 public:
  Spread(Elaboration& e, const Region& region, const Varying& varying)
      : e_(e), graph_(e.graph), region_(region), varying_(varying) {}

  void run() { body(region_.body, nodes_of(graph_, region_)); }

 private:
  /// Writes the nodes anew at the end of their body, each behind what it came to need.
  void body(BodyId id, const std::vector<NodeId>& nodes) {
    std::erase_if(graph_.body(id).nodes, [&](NodeId node) { return std::ranges::count(nodes, node) > 0; });
    for (const NodeId node : nodes) {
      write(node);
      graph_.body(id).nodes.push_back(node);
    }
  }

  void write(NodeId id) {
    if (std::holds_alternative<LoopOp>(graph_.node(id).op)) return loop(id);
    for (const ValueId result : graph_.node(id).results) give_ranks(result);
    const auto across = e_.tables.across.find(id);
    if (across != e_.tables.across.end()) return is_own(across->second.ranks) ? collective(id, across->second) : void();
    if (varies(id) && !fits(id)) widen(id);
  }

  bool is_own(DimId ranks) const { return std::ranges::count(region_.axes, ranks, &Region::Axis::ranks) > 0; }

  /// In front, but behind the dim of the loop that stacks it.
  void give_ranks(ValueId value, bool is_stacked = false) {
    const Dims ranks = varying_.of(value);
    Dims& dims = graph_.value(value).type.dims;
    dims.insert(dims.begin() + (is_stacked ? 1 : 0), ranks.begin(), ranks.end());
  }

  bool varies(NodeId id) const {
    return std::ranges::any_of(graph_.node(id).inputs, [&](ValueId input) { return !varying_.of(input).empty(); });
  }

  /// Whether the op makes its results of operands that have more dims than the region wrote.
  bool fits(NodeId id) const {
    const Node& node = graph_.node(id);
    const auto sorted = [](Dims dims) {
      std::ranges::sort(dims);
      return dims;
    };
    try {
      const std::vector<ValueType> made = definition(node.op).infer(graph_, node);
      return std::ranges::equal(made, node.results, [&](const ValueType& type, ValueId result) {
        return sorted(type.dims) == sorted(graph_.type(result).dims);
      });
    } catch (const std::logic_error&) {
      return false;  // operands that it cannot bring together
    }
  }

  ValueId widened(GraphBuilder& build, ValueId value, const Dims& ranks) const {
    return build.broadcast(value, missing_from(graph_.type(value).dims, ranks));
  }

  /// What ranks have alike is repeated for each.
  void widen(NodeId id) {
    GraphBuilder build = beside(graph_, graph_.node(id));
    Dims ranks;
    for (const Region::Axis& axis : region_.axes)
      if (std::ranges::any_of(graph_.node(id).inputs, [&](ValueId v) { return has(varying_.of(v), axis.ranks); }))
        ranks.push_back(axis.ranks);
    std::vector<ValueId> inputs = graph_.node(id).inputs;
    for (ValueId& input : inputs) input = widened(build, input, ranks);
    graph_.node(id).inputs = inputs;
    if (!fits(id))
      e_.error("E0901", graph_.node(id).span, "`{}` of what differs from rank to rank is not built yet",
               definition(graph_.node(id).op).name)
          .label(region_.span, "in this manual region");
  }

  void loop(NodeId id) {
    LoopOp op = std::get<LoopOp>(graph_.node(id).op);
    GraphBuilder before = beside(graph_, graph_.node(id));
    for (LoopOp::Carry& carry : op.carries) {
      give_ranks(carry.entering);
      give_ranks(carry.result);
      carry.initial = widened(before, carry.initial, varying_.of(carry.entering));
    }
    for (const LoopOp::Slice& slice : op.slices) give_ranks(slice.turn);
    for (const LoopOp::Collect& collect : op.collects) give_ranks(collect.stacked, true);
    body(op.body, std::vector<NodeId>(graph_.body(op.body).nodes));
    GraphBuilder inside = before;
    inside.body = op.body;
    const std::vector<NodeId> nodes = graph_.body(op.body).nodes;
    const bool ends_early = !nodes.empty() && std::holds_alternative<UntilOp>(graph_.node(nodes.back()).op);
    if (ends_early) graph_.body(op.body).nodes.pop_back();
    for (LoopOp::Carry& carry : op.carries) carry.leaving = widened(inside, carry.leaving, varying_.of(carry.entering));
    if (ends_early) graph_.body(op.body).nodes.push_back(nodes.back());
    graph_.node(id).op = op;
    connect_loop(graph_.node(id));
  }

  /// The op along the ranks in place of what stood for it.
  void collective(NodeId id, const AcrossRanks& across) {
    using Kind = AcrossRanks::Kind;
    GraphBuilder build = beside(graph_, graph_.node(id));
    const ValueId x = graph_.node(id).inputs.empty() ? ValueId{} : graph_.node(id).inputs[0];
    const DimId ranks = across.ranks;
    const int64_t count = graph_.dim(ranks).size;
    switch (across.kind) {
      case Kind::part: return become(id, SplitOp{across.split, {ranks, across.scattered}}, x);
      case Kind::coordinate: return become(id, PositionOp{ranks}, {});
      case Kind::all_reduce: return become(id, agreed({}), called(id, reduced(build, across.reduce, x, ranks)));
      case Kind::all_gather: {
        const ValueId merged = build.value(MergeOp{{ranks, across.gathered}, across.whole}, {x});
        return become(id, agreed({across.whole}), called(id, merged));
      }
      case Kind::reduce_scatter: {
        const ValueId sum = reduced(build, across.reduce, x, ranks);
        return become(id, SplitOp{across.split, {ranks, across.scattered}}, called(id, sum));
      }
      case Kind::permute: {
        int64_t distance = (-across.by % count + count) % count;
        if (distance > count / 2) distance -= count;                        // the shorter way round
        if (distance == 0) return become(id, MapOp{MapFunction::cast}, x);  // a copy would stop the gradient
        return become(id, ShiftOp{ranks, distance, Edge{Edge::Kind::wrap}}, x);
      }
      case Kind::all_to_all: {
        const DimId takers = twin(e_, ranks, "_to");
        const ValueId cut = build.value(SplitOp{across.split, {takers, across.scattered}}, {x});
        const ValueId merged = build.value(MergeOp{{ranks, across.gathered}, across.whole}, {cut});
        return become(id, RenameOp{{takers}, {ranks}}, merged);
      }
    }
  }

  /// What ranks add up of bf16 and f16 is sent as such: each of the numbers is one already.
  static ValueId reduced(GraphBuilder& build, Reduce reduce, ValueId x, DimId ranks) {
    const ValueId result = build.reduce(reduce, reduce == Reduce::sum ? build.computed(x) : x, Dims{ranks});
    const Type type = build.graph.type(x).element;
    return build.graph.type(result).element == type ? result : build.cast_part(result, type);
  }

  /// For messages, what is sent is called as its result.
  ValueId called(NodeId id, ValueId value) {
    graph_.value(value).label = graph_.value(graph_.node(id).results[0]).name;
    return value;
  }

  void become(NodeId id, Op op, ValueId operand) {
    Node& node = graph_.node(id);
    node.op = std::move(op);
    node.inputs = operand ? std::vector<ValueId>{operand} : std::vector<ValueId>{};
  }

  Elaboration& e_;
  Graph& graph_;
  const Region& region_;
  const Varying& varying_;
};

}  // namespace

void spread(Elaboration& e, const Region& region, const Varying& varying) { Spread(e, region, varying).run(); }

}  // namespace mesh::elaboration
