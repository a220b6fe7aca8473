#include "codegen/layout/owned_parameters.h"

#include <algorithm>
#include <set>

#include "codegen/graph/rewrite.h"
#include "codegen/layout/declared.h"
#include "codegen/layout/stages.h"

namespace mesh {
namespace {

/// The coordinates whose stages need a value of the root body or of a replica's turn; `all` too where something needs
/// it that is of no one stage.
class Needed {
 public:
  Needed(const Graph& graph, const Layout& layout, const Stages& stages)
      : graph_(graph), axis_(layout.pipeline.axis), stages_(stages), replicas_(graph.body(stages.around()).owner) {
    find(graph.root());
    if (replicas_) {
      needed_where_read(stages.around());
      for (const LoopOp::Slice& slice : std::get<LoopOp>(graph.node(replicas_).op).slices)
        need(slice.stacked, slice.turn);
    }
    needed_where_read(graph.root());
  }

  /// In order; none where all may need it.
  std::vector<int64_t> by(ValueId value) const {
    const auto found = coordinates_.find(value);
    if (found == coordinates_.end() || found->second.contains(all)) return {};
    return {found->second.begin(), found->second.end()};
  }

 private:
  static constexpr int64_t all = -1;

  /// A value, where another one is.
  void need(ValueId value, ValueId where) {
    if (const auto found = coordinates_.find(where); found != coordinates_.end())
      coordinates_[value].merge(std::set(found->second));
  }

  /// What a body around the pipeline makes of a parameter is needed where its own readers are. Later nodes read earlier
  /// ones.
  void needed_where_read(BodyId body) {
    const std::vector<NodeId>& nodes = graph_.body(body).nodes;
    for (auto id = nodes.rbegin(); id != nodes.rend(); ++id) {
      const Node& node = graph_.node(*id);
      if (node.part == Part::update || std::holds_alternative<LoopOp>(node.op)) continue;
      for (const ValueId result : node.results) for_each_read(node, [&](ValueId value) { need(value, result); });
    }
  }

  void find(BodyId body) {
    for (const NodeId id : graph_.body(body).nodes) {
      const Node& node = graph_.node(id);
      const auto* loop = std::get_if<LoopOp>(&node.op);
      if (loop) find(loop->body);
      const bool is_around = body == graph_.root() || body == stages_.around();
      if (node.part == Part::update || id == replicas_ || (is_around && !loop)) continue;
      const std::vector<int64_t> at = coordinates(id);
      for_each_read(node, [&](ValueId value) { coordinates_[value].insert(at.begin(), at.end()); });
    }
  }

  std::vector<int64_t> coordinates(NodeId id) const {
    const std::vector<Where> at = stages_.ever_at(id);
    const auto where = std::ranges::find(at, axis_, &Where::axis);
    return where == at.end() ? std::vector<int64_t>{all} : where->coordinates;
  }

  const Graph& graph_;
  const AxisId axis_;
  const Stages& stages_;
  const NodeId replicas_;  // the loop over these, where the pipeline is within it
  std::map<ValueId, std::set<int64_t>> coordinates_;
};

}  // namespace

std::map<std::string, std::vector<int64_t>> owned_parameters(const Graph& graph, const Layout& layout) {
  std::map<std::string, std::vector<int64_t>> owned;
  if (!layout.pipeline) return owned;
  const Stages stages(graph, layout);
  if (!stages) return owned;
  const Needed needed(graph, layout, stages);
  const Declared declared(graph, layout);
  // A rule may split what an optimizer keeps over the axis, and not the parameter: then all hold both.
  std::set<std::string> split;
  const auto is_split = [&](const DimPlacement& dim) { return contains(dim.axes, layout.pipeline.axis); };
  const size_t all = layout.pipeline.lists.ranks.size();
  const auto path_of = [&](StoredId id) { return graph.stored[parameter_of(graph, id).index].path; };
  for (uint32_t i = 0; i < graph.stored.size(); ++i)
    if (std::ranges::any_of(declared.of(graph.stored[i]).dims, is_split)) split.insert(path_of({i}));
  for (const Objective::Parameter& trained : graph.objective->parameters) {
    const std::string path = path_of(trained.stored);
    const std::vector<int64_t> by = needed.by(graph.stored[trained.stored.index].value);
    if (!split.contains(path) && (by.size() == 1 || (by.size() > 1 && by.size() < all))) owned[path] = by;
  }
  return owned;
}

std::vector<Where> owner_of(const Graph& graph, const Layout& layout, const Stored& stored) {
  if (stored.kind != StoredKind::parameter && stored.kind != StoredKind::optimizer) return {};
  const Stored& parameter = stored.parameter ? graph.stored[parameter_of(graph, stored.parameter).index] : stored;
  if (parameter.type.dims.empty()) return {};
  const auto found = layout.pipeline.owned.find(parameter.path);
  if (found == layout.pipeline.owned.end()) return {};
  return {{layout.pipeline.axis, found->second, {}}};
}

}  // namespace mesh
