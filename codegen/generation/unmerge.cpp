#include "codegen/generation/unmerge.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "codegen/generation/horizons.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"

namespace mesh {
namespace {

/// Moves merges behind the ops that read what they give, one op at a time, until they meet a split that takes them
/// back, or nobody reads them.
class Unmerger {
 public:
  explicit Unmerger(Graph& graph) : graph_(graph) {}

  bool once() {
    find_positions();
    moved_ = false;
    expand_nodes(graph_, [&](GraphBuilder& build, NodeId id) { return behind(build, id); });
    for (size_t body = 0; body < graph_.bodies.size(); ++body)
      for (const NodeId id : std::vector(graph_.bodies[body].nodes))
        if (std::holds_alternative<LoopOp>(graph_.node(id).op)) through_loop(id);
    return moved_;
  }

 private:
  void find_positions() {
    positions_.clear();
    for (const Horizon& horizon : horizons_of(graph_, graph_.generation->input, graph_.generation->along).of)
      for (const auto& [dim, by] : horizon.upto) positions_.insert(dim);
  }

  /// The merge of positions with something else that gives the value.
  std::optional<MergeOp> merge_of(ValueId value) const {
    const auto* merge = std::get_if<MergeOp>(&graph_.node(graph_.value(value).producer).op);
    if (!merge || std::ranges::none_of(merge->from, [&](DimId dim) { return positions_.contains(dim); })) return {};
    return *merge;
  }

  ValueId before(ValueId merged) const { return graph_.node(graph_.value(merged).producer).inputs[0]; }

  std::vector<ValueId> behind(GraphBuilder& build, NodeId id) {
    const Node node = graph_.node(id);
    if (std::holds_alternative<LoopOp>(node.op)) return {};
    for (const ValueId input : node.inputs)
      if (const std::optional<MergeOp> merge = merge_of(input)) {
        std::vector<ValueId> made = behind(build, node, *merge, input);
        moved_ = moved_ || !made.empty();
        return made;
      }
    return {};
  }

  /// What stands for the node's results: what the op gives of the parts, merged; nothing where it needs the whole.
  std::vector<ValueId> behind(GraphBuilder& build, const Node& node, const MergeOp& merge, ValueId merged) {
    if (const auto* split = std::get_if<SplitOp>(&node.op); split && split->from == merge.to)
      return taken_back(build, node, *split, merge, merged);
    MergeOp again = merge;
    Op op = node.op;
    if (auto* rename = std::get_if<RenameOp>(&op)) again.to = without(*rename, merge.to);
    else name_parts(op, merge);
    if (names_dim(op, merge.to) || std::ranges::any_of(merge.from, [&](DimId dim) { return names_dim(op, dim); }))
      return {};
    const auto has_part = [&](ValueId value) {
      return std::ranges::any_of(merge.from, [&](DimId dim) { return has(graph_.type(value).dims, dim); });
    };
    if (std::ranges::any_of(node.inputs, has_part)) return {};
    std::vector<ValueId> operands;
    for (const ValueId input : node.inputs)
      operands.push_back(has(graph_.type(input).dims, merge.to) ? in_parts(build, input, merge) : input);
    return merged_results(build, node, build.append(op, operands), again);
  }

  std::vector<ValueId> merged_results(GraphBuilder& build, const Node& node, NodeId made, const MergeOp& merge) {
    std::vector<ValueId> results;
    for (size_t i = 0; i < node.results.size(); ++i) {
      ValueId parts = graph_.node(made).results[i];
      const ValueType type = graph_.type(node.results[i]);
      const bool whole = has(type.dims, merge.to);
      const Dims dims = whole ? replaced(type.dims, {merge.to}, merge.from) : type.dims;
      graph_.value(parts).type.element = type.element;  // of a cast the op does not say them, nor the order
      graph_.value(parts).type.index_of = type.index_of;
      if (map_function(node.op) == MapFunction::cast) graph_.value(parts).type.dims = dims;
      parts = build.in_order(parts, dims);
      graph_.value(parts).label = known_as(graph_, node.results[i]);
      results.push_back(whole ? build.value(merge, {parts}) : parts);
    }
    return results;
  }

  std::vector<ValueId> taken_back(GraphBuilder& build, const Node& node, const SplitOp& split, const MergeOp& merge,
                                  ValueId merged) {
    const auto size = [&](DimId dim) { return graph_.dim(dim).size; };
    const std::vector<DimId>& others = graph_.type(merged).dims;
    const auto is_other = [&](DimId dim) { return has(others, dim); };
    if (!std::ranges::equal(split.to, merge.from, {}, size, size) || std::ranges::any_of(merge.from, is_other))
      return {};
    RenameOp rename;
    for (size_t i = 0; i < split.to.size(); ++i)
      if (split.to[i] != merge.from[i]) rename.from.push_back(merge.from[i]), rename.to.push_back(split.to[i]);
    ValueId parts = before(merged);
    if (!rename.from.empty()) parts = build.rename(parts, rename.from, rename.to);
    return {build.in_order(parts, graph_.type(node.results[0]).dims)};
  }

  /// The rename leaves the dim alone; what it would have called it.
  static DimId without(RenameOp& rename, DimId dim) {
    const DimId name = renamed(rename, dim);
    for (size_t i = 0; i < rename.from.size(); ++i) {
      if (rename.from[i] != dim) continue;
      rename.from.erase(rename.from.begin() + static_cast<std::ptrdiff_t>(i));
      rename.to.erase(rename.to.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
    return name;
  }

  /// An op that takes several dims as it takes one takes the parts.
  static void name_parts(Op& op, const MergeOp& merge) {
    const auto parts_in = [&](std::vector<DimId>& dims) {
      if (has(dims, merge.to)) dims = replaced(dims, {merge.to}, merge.from);
    };
    if (auto* reduce = std::get_if<ReduceOp>(&op)) parts_in(reduce->dims);
    else if (auto* dot = std::get_if<DotOp>(&op)) parts_in(dot->dims);
    else if (auto* sum = std::get_if<LogSumExpOp>(&op)) parts_in(sum->dims);
    else if (auto* larger = std::get_if<MergeOp>(&op)) parts_in(larger->from);
  }

  ValueId in_parts(GraphBuilder& build, ValueId whole, const MergeOp& merge) {
    if (merge_of(whole) == merge) return before(whole);
    const Node& node = graph_.node(graph_.value(whole).producer);
    const auto* copies = std::get_if<BroadcastOp>(&node.op);
    if (copies == nullptr || !has(copies->dims, merge.to)) return build.value(SplitOp{merge.to, merge.from}, {whole});
    const std::vector<DimId> dims = replaced(copies->dims, {merge.to}, merge.from);
    return build.broadcast(node.inputs[0], dims);
  }

  /// A carry that begins merged is carried in parts.
  void through_loop(NodeId id) {
    for (size_t i = 0; i < std::get<LoopOp>(graph_.node(id).op).carries.size(); ++i) {
      const LoopOp loop = std::get<LoopOp>(graph_.node(id).op);
      LoopOp::Carry carry = loop.carries[i];
      const std::optional<MergeOp> merge = merge_of(carry.initial);
      if (!merge || has(merge->from, loop.dim)) continue;
      moved_ = true;
      carry.initial = before(carry.initial);
      const ValueType type = graph_.type(carry.initial);
      const BodyId outer = graph_.node(id).body;
      GraphBuilder build = beside(graph_, graph_.node(id));
      const ValueId entering = build.argument(type, loop.body, id), result = build.argument(type, outer, id);
      merge_at(loop.body, 0, entering, carry.entering, *merge);
      const std::vector<NodeId>& around = graph_.body(outer).nodes;
      const auto place = std::ranges::find(around, id) - around.begin();
      merge_at(outer, static_cast<size_t>(place) + 1, result, carry.result, *merge);
      std::vector<NodeId>& inside = graph_.body(loop.body).nodes;
      const bool ends = until(graph_, loop) != ValueId{};
      build.body = loop.body;
      const ValueId parts = build.value(SplitOp{merge->to, merge->from}, {carry.leaving});
      carry.leaving = build.in_order(parts, type.dims);
      if (ends)  // what ends the loop stands last
        std::ranges::rotate(inside, std::ranges::find_if(inside, [&](NodeId one) {
                                      return std::holds_alternative<UntilOp>(graph_.node(one).op);
                                    }) + 1);
      std::get<LoopOp>(graph_.node(id).op).carries[i] = {carry.initial, entering, carry.leaving, result};
      connect_loop(graph_.node(id));
    }
  }

  /// At a place of a body: `parts` merged, which stands for `whole`.
  void merge_at(BodyId body, size_t place, ValueId parts, ValueId whole, const MergeOp& merge) {
    GraphBuilder build = beside(graph_, graph_.node(graph_.value(whole).producer));
    build.body = body;
    const size_t first = graph_.body(body).nodes.size();
    const ValueId merged = build.value(merge, {parts});
    std::vector<NodeId>& nodes = graph_.body(body).nodes;
    std::rotate(nodes.begin() + static_cast<std::ptrdiff_t>(place), nodes.begin() + static_cast<std::ptrdiff_t>(first),
                nodes.end());
    graph_.value(merged).take_names(graph_.value(whole));
    for_each_use(graph_, [&](ValueId& value) {
      if (value == whole) value = merged;
    });
  }

  Graph& graph_;
  std::set<DimId> positions_;  // dims along which something that is generated lies
  bool moved_ = false;
};

}  // namespace

void unmerge(Graph& graph) {
  Unmerger unmerger(graph);
  while (unmerger.once()) remove_dead(graph, std::array{graph.generation->logits});
  verify_graph(graph, "unmerge");
}

}  // namespace mesh
