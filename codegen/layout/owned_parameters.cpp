#include "codegen/layout/owned_parameters.h"

#include <algorithm>
#include <set>

#include "codegen/graph/rewrite.h"
#include "codegen/layout/declared.h"
#include "codegen/layout/stages.h"

namespace mesh {
namespace {

/// The coordinates whose stages need a value of the root body; `all` too where something needs it that is of no one
/// stage.
class Needed {
 public:
  Needed(const Graph& graph, const Layout& layout, const Stages& stages)
      : graph_(graph), axis_(layout.pipeline.axis), stages_(stages) {
    find(graph.root());
    // What the root makes of a parameter is needed where its own readers are. Later nodes read earlier ones.
    const std::vector<NodeId>& nodes = graph.body(graph.root()).nodes;
    for (auto id = nodes.rbegin(); id != nodes.rend(); ++id) {
      const Node& node = graph.node(*id);
      if (node.part == Part::update || std::holds_alternative<LoopOp>(node.op)) continue;
      for (const ValueId result : node.results)
        if (const auto found = coordinates_.find(result); found != coordinates_.end())
          for_each_read(node,
                        [&, needed = found->second](ValueId value) { coordinates_[value].merge(std::set(needed)); });
    }
  }

  /// In order; none where all may need it.
  std::vector<int64_t> by(ValueId value) const {
    const auto found = coordinates_.find(value);
    if (found == coordinates_.end() || found->second.contains(all)) return {};
    return {found->second.begin(), found->second.end()};
  }

 private:
  static constexpr int64_t all = -1;

  void find(BodyId body) {
    for (const NodeId id : graph_.body(body).nodes) {
      const Node& node = graph_.node(id);
      const auto* loop = std::get_if<LoopOp>(&node.op);
      if (loop) find(loop->body);
      if (node.part == Part::update || (body == graph_.root() && !loop)) continue;
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
  std::map<ValueId, std::set<int64_t>> coordinates_;
};

}  // namespace

std::map<std::string, std::vector<int64_t>> owned_parameters(const Graph& graph, const Layout& layout) {
  std::map<std::string, std::vector<int64_t>> owned;
  if (!layout.pipeline || layout.replicas) return owned;
  const Stages stages(graph, layout);
  if (!stages) return owned;
  const Needed needed(graph, layout, stages);
  const Declared declared(graph, layout);
  // A rule may split what an optimizer keeps over the axis, and not the parameter: then all hold both.
  std::set<std::string> split;
  const auto is_split = [&](const DimPlacement& dim) { return contains(dim.axes, layout.pipeline.axis); };
  const size_t all = layout.pipeline.lists.ranks.size();
  for (const Stored& stored : graph.stored)
    if (std::ranges::any_of(declared.of(stored).dims, is_split))
      split.insert(stored.parameter ? graph.stored[stored.parameter.index].path : stored.path);
  for (const Stored& stored : graph.stored)
    if (stored.kind == StoredKind::parameter && !split.contains(stored.path))
      if (const std::vector<int64_t> by = needed.by(stored.value); by.size() == 1 || (by.size() > 1 && by.size() < all))
        owned[stored.path] = by;
  return owned;
}

std::vector<Where> owner_of(const Graph& graph, const Layout& layout, const Stored& stored) {
  if (stored.type.dims.empty() || (stored.kind != StoredKind::parameter && stored.kind != StoredKind::optimizer))
    return {};
  const Stored& parameter = stored.parameter ? graph.stored[stored.parameter.index] : stored;
  const auto found = layout.pipeline.owned.find(parameter.path);
  if (found == layout.pipeline.owned.end()) return {};
  return {{layout.pipeline.axis, found->second, {}}};
}

}  // namespace mesh
