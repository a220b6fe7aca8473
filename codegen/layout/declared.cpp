#include "codegen/layout/declared.h"

#include <algorithm>

#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"
#include "codegen/layout/owned_parameters.h"

namespace mesh {
namespace {

DimPlacement split_of(const Rule& rule) { return {rule.axes, rule.deal}; }

/// A gradient, what it is divided by the loss' scale of (optimizer/loss_scale.h), what this is widened of where ranks
/// add it up in fewer bits (rewrites/narrow_gradients.h), and the sum over micro-batches that this is made of.
std::vector<ValueId> parts_of_gradient(const Graph& graph, ValueId gradient) {
  std::vector<ValueId> parts{gradient};
  const auto producer = [&](ValueId value) -> const Node& { return graph.node(graph.value(value).producer); };
  const auto is_update = [&](const Node& node) { return node.part == Part::update && is_elementwise(node.op); };
  if (const Node& node = producer(gradient); is_update(node) && !widens(graph, node)) parts.push_back(node.inputs[0]);
  if (!widens(graph, producer(parts.back()))) return parts;
  parts.push_back(producer(parts.back()).inputs[0]);
  if (const Node& node = producer(parts.back()); is_elementwise(node.op)) {
    const auto* loop = std::get_if<LoopOp>(&producer(node.inputs[0]).op);
    if (loop && loop->dim == graph.micro_batches.turns) parts.push_back(node.inputs[0]);
  }
  return parts;
}

}  // namespace

Declared::Declared(const Graph& graph, const Layout& layout)
    : graph_(graph), layout_(layout), others_(other_names_of_stored(graph)) {
  for (const auto& [name, value] : graph.names)
    if (name.starts_with("grad(")) {
      const std::string path = name.substr(5, name.size() - 6);
      for (const ValueId part : parts_of_gradient(graph, value)) gradients_[part] = path;
    }
  find_gradients_of_turns(graph.root());
}

/// From outer loops to inner ones, in each body from what reads to what is read. The gradient of a parameter that a
/// loop stacks is made turn by turn; what a micro-batch adds to a gradient, and their sum so far, lie as the gradient
/// does; so does what is stacked group by group, where a loop's turns are in groups.
void Declared::find_gradients_of_turns(BodyId body) {
  const auto same = [&](ValueId of_turn, ValueId gradient) {
    if (const auto found = gradients_.find(gradient); found != gradients_.end()) gradients_[of_turn] = found->second;
  };
  const auto puts_groups_together = [&](const Node& node) {
    return is_view(node.op) && std::ranges::any_of(graph_.grouped, [&](const GroupedTurns& one) {
             return has(graph_.type(node.inputs[0]).dims, one.groups) &&
                    has(graph_.type(node.results[0]).dims, one.turns);
           });
  };
  // A replica's sum is rounded before it is stacked, behind its micro-batches.
  const LoopOp* around =
      body == graph_.root() ? nullptr : std::get_if<LoopOp>(&graph_.node(graph_.body(body).owner).op);
  const bool of_replicas = around != nullptr && graph_.replicas.turns && around->dim == graph_.replicas.turns;
  const std::vector<NodeId>& nodes = graph_.body(body).nodes;
  for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) {
    const NodeId id = *at;
    const Node& node = graph_.node(id);
    const auto* map = std::get_if<MapOp>(&node.op);
    const bool rounds = of_replicas && map != nullptr && is_cast(map->function);
    if (puts_groups_together(node) || rounds) same(node.inputs[0], node.results[0]);
    const LoopOp* loop = std::get_if<LoopOp>(&node.op);
    if (!loop) continue;
    for (const auto& collect : loop->collects) same(collect.turn, collect.stacked);
    if (graph_.micro_batches.turns && loop->dim == graph_.micro_batches.turns)
      for (const auto& carry : loop->carries) {
        same(carry.entering, carry.result);
        same(carry.leaving, carry.result);
        // A gradient without samples is the same in every turn: nothing is added to what entered.
        const std::vector<ValueId>& terms = graph_.node(graph_.value(carry.leaving).producer).inputs;
        if (std::find(terms.begin(), terms.end(), carry.entering) == terms.end()) continue;
        for (const ValueId added : terms) same(added, carry.result);
      }
    find_gradients_of_turns(loop->body);
  }
}

ValuePaths Declared::paths_of_stored(const std::string& path) const {
  const auto found = others_.find(path);
  return found == others_.end() ? ValuePaths{path} : ValuePaths{path, found->second};
}

Declared::Kind Declared::kind_of(ValueId id) const {
  if (const auto found = gradients_.find(id); found != gradients_.end())
    return {ValueKind::gradient, paths_of_stored(found->second)};
  const Value& value = graph_.value(id);
  const Node& node = graph_.node(value.producer);
  // A turn of a stacked parameter is still the parameter.
  if (const LoopOp* loop = std::get_if<LoopOp>(&node.op))
    for (const auto& slice : loop->slices)
      if (slice.turn == id) return kind_of(slice.stacked);
  if (const ReadOp* read = std::get_if<ReadOp>(&node.op)) {
    const Stored& stored = graph_.stored[read->stored.index];
    switch (stored.kind) {
      case StoredKind::input: return {ValueKind::input, paths_of_stored(stored.path)};
      case StoredKind::parameter: return {ValueKind::parameter, paths_of_stored(stored.path)};
      case StoredKind::optimizer:
        return {ValueKind::optimizer, paths_of_stored(graph_.stored[parameter_of(graph_, read->stored).index].path)};
      case StoredKind::state:
      case StoredKind::cache: return {ValueKind::state, paths_of_stored(stored.path)};
    }
  }
  if (value.name.empty()) return {ValueKind::nameless, {node.scope}};
  return {ValueKind::activation, {value.name, value.other_names}};
}

const std::string* Declared::parameter_of_gradient(ValueId id) const {
  const auto found = gradients_.find(id);
  return found == gradients_.end() ? nullptr : &found->second;
}

const Rule* Declared::rule(ValueId id, DimId dim) const {
  const Kind kind = kind_of(id);
  return rule_for(layout_, kind.kind, kind.paths, graph_.type(id).dims, dim);
}

bool Declared::may_lie_otherwise(ValueId id) const {
  return !layout_.closed && kind_of(id).kind == ValueKind::nameless;
}

DeclaredAxes Declared::of(ValueId id) const {
  std::vector<std::optional<DimPlacement>> result;
  // What the update computes on the way follows the optimizer's state: it is no activation.
  const Node& producer = graph_.node(graph_.value(id).producer);
  if (producer.part == Part::update && !std::holds_alternative<ReadOp>(producer.op))
    return DeclaredAxes(graph_.type(id).dims.size());
  std::vector<AxisId> used;
  const Kind kind = kind_of(id);
  const std::vector<DimId>& dims = graph_.type(id).dims;
  for (DimId dim : dims) {
    const Rule* rule = rule_for(layout_, kind.kind, kind.paths, dims, dim);
    result.emplace_back();
    if (!rule) {
      // Groups of a loop's turns lie as these do, which may be split; those of a pipeline's at their stages.
      const bool of_groups = std::ranges::count(graph_.grouped, dim, &GroupedTurns::groups) > 0;
      if (const auto loop = layout_.pipeline.loop_over(dim);
          loop && of_groups && !contains(used, layout_.pipeline.axis)) {
        result.back() = DimPlacement{{layout_.pipeline.axis}, layout_.pipeline.loops[*loop].deal};
        used.push_back(layout_.pipeline.axis);
      } else if (layout_.closed && !of_groups) {
        result.back().emplace();
      }
      continue;
    }
    if (std::any_of(rule->axes.begin(), rule->axes.end(),
                    [&](AxisId a) { return std::find(used.begin(), used.end(), a) != used.end(); }))
      continue;
    result.back() = split_of(*rule);
    used.insert(used.end(), rule->axes.begin(), rule->axes.end());
    const bool of_stages = rule->span != layout_.pipeline.span && is_of_stages(id);
    if (kind.kind == ValueKind::gradient && of_stages) leave_to_stages(result.back());
  }
  return result;
}

/// Whether the value is of a micro-batch that goes through the stages of a pipeline.
bool Declared::is_of_stages(ValueId id) const {
  if (!layout_.pipeline) return false;
  for (NodeId loop = graph_.body(graph_.value(id).body).owner; loop; loop = graph_.body(graph_.node(loop).body).owner)
    if (std::get<LoopOp>(graph_.node(loop).op).dim == graph_.micro_batches.turns) return true;
  return false;
}

/// A stage adds up what its micro-batches make of a gradient: only their sum is split over the axis of the stages.
void Declared::leave_to_stages(std::optional<DimPlacement>& split) const {
  if (!contains(split->axes, layout_.pipeline.axis)) return;
  remove_axes(*split, {std::ranges::find(split->axes, layout_.pipeline.axis), split->axes.end()});
  if (split->axes.empty() && !layout_.closed) split.reset();
}

Placement Declared::of(const Stored& stored) const {
  Placement placement = Placement::whole(stored.type.dims.size());
  const auto declared = of(stored.value);
  for (size_t i = 0; i < declared.size(); ++i)
    if (declared[i]) placement.dims[i] = *declared[i];
  placement.at = owner_of(graph_, layout_, stored);
  return placement;
}

Placement Declared::of(const Output& output) const {
  const std::vector<DimId>& dims = graph_.type(output.value).dims;
  Placement placement = Placement::whole(dims.size());
  const ValuePaths paths = paths_of_output(graph_, output);
  for (size_t i = 0; i < dims.size(); ++i)
    if (const Rule* rule = rule_for(layout_, ValueKind::output, paths, dims, dims[i]))
      placement.dims[i] = split_of(*rule);
  return placement;
}

}  // namespace mesh
