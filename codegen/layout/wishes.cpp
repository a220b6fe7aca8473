#include "codegen/layout/wishes.h"

#include <algorithm>
#include <set>

#include "codegen/graph/op.h"
#include "codegen/layout/declared.h"
#include "codegen/layout/product_groups.h"
#include "codegen/layout/strategy.h"
#include "codegen/layout/work.h"

namespace mesh {
namespace {

constexpr size_t most_movements = 24;      // that are worth a look, of one graph
constexpr double worth_of_all = 1 / 200.;  // of all seconds of communication

Placement complete(Placement placement) {
  placement.partial.clear();
  placement.at.clear();
  return placement.without_margins().without_circulation();
}

using Lies = std::map<ValueId, Placement>;

/// The same placement for dims that are listed in another order; nothing where they are other dims.
std::optional<Placement> in_order(const Placement& placement, const std::vector<DimId>& from,
                                  const std::vector<DimId>& to) {
  if (from.size() != to.size()) return {};
  Placement result = Placement::whole(to.size());
  for (size_t i = 0; i < to.size(); ++i) {
    const auto at = std::ranges::find(from, to[i]);
    if (at == from.end()) return {};
    result.dims[i] = placement.dims[static_cast<size_t>(at - from.begin())];
  }
  return result;
}

class Movements {
 public:
  Movements(const Graph& graph, const ShardedGraph& placed, bool in_parts)
      : graph_(graph),
        placed_(placed),
        mesh_(placed.layout.mesh),
        declared_(graph, placed.layout),
        products_(graph),
        work_(placed),
        in_parts_(in_parts) {
    for (const Node& node : graph.nodes) {
      if (const RenameOp* rename = std::get_if<RenameOp>(&node.op))
        for (size_t i = 0; i < rename->from.size(); ++i) same_[known(rename->from[i])] = known(rename->to[i]);
      if (const LoopOp* loop = std::get_if<LoopOp>(&node.op)) {
        for (const auto& carry : loop->carries) entering_[carry.result] = carry.entering;
        for (const auto& carry : loop->carries) carries_[carry.entering] = &carry;
        for (const auto& carry : loop->carries) leaves_as_[carry.leaving].push_back(carry.entering);
        for (const auto& slice : loop->slices) stack_of_[slice.turn] = slice.stacked;
        for (const auto& collect : loop->collects) turn_of_[collect.stacked] = collect.turn;
        for (const auto& collect : loop->collects) stacks_.push_back(collect.stacked);
      }
    }
    for (const Node& node : placed.graph.nodes)
      if (const ReshardOp* moved = std::get_if<ReshardOp>(&node.op))
        if (const ReshardStep& step = placed.steps[moved->step]; step.kind == CollectiveKind::slice && step.to_dim >= 0)
          for (const AxisId axis : step.axes)
            sliced_.emplace(known(placed.graph.type(node.results[0]).dims[static_cast<size_t>(step.to_dim)]), axis);
    std::ranges::sort(stacks_);
  }

  std::vector<std::vector<Wish>> run() {
    std::vector<std::pair<double, const Movement*>> dear;
    double all = 0;
    for (const Movement& moved : placed_.movements) {
      const double seconds = seconds_of(moved), repeated = repeated_for(moved).seconds;
      all += seconds;
      if (seconds + repeated > 0) dear.emplace_back(seconds + repeated, &moved);
    }
    std::ranges::stable_sort(dear, std::greater<>{}, &std::pair<double, const Movement*>::first);
    std::vector<std::vector<Wish>> result;
    for (size_t i = 0; i < std::min(dear.size(), most_movements); ++i) {
      const auto& [seconds, moved] = dear[i];
      if (seconds < worth_of_all * all) break;
      ways_.clear();
      avoid(*moved);
      if (!ways_.empty()) result.push_back(std::move(ways_));
    }
    return result;
  }

 private:
  std::vector<const ReshardStep*> steps_of(const Movement& moved) const {
    std::vector<const ReshardStep*> steps;
    for (ValueId at = moved.to; at != moved.from;) {
      const Node& node = placed_.graph.node(placed_.graph.value(at).producer);
      steps.push_back(&placed_.steps[std::get<ReshardOp>(node.op).step]);
      at = node.inputs[0];
    }
    return steps;
  }

  /// What goes round lies in the end as it did: no other place of it would save that.
  double seconds_of(const Movement& moved) const {
    double seconds = 0;
    for (const ReshardStep* step : steps_of(moved))
      if (step->kind != CollectiveKind::ring) seconds += step->seconds;
    return seconds * turns_around(moved.from);
  }
  double turns_around(ValueId value) const {
    double turns = 1;
    for (NodeId loop = graph_of(value).owner; loop; loop = placed_.graph.body(placed_.graph.node(loop).body).owner)
      turns *= static_cast<double>(turns_made(placed_, std::get<LoopOp>(placed_.graph.node(loop).op)));
    return turns;
  }
  const Body& graph_of(ValueId value) const { return placed_.graph.body(placed_.graph.value(value).body); }

  /// The value of the graph that this is a copy of.
  ValueId origin(ValueId copy) const {
    while (copy.index >= graph_.values.size()) {
      const Node& made = placed_.graph.node(placed_.graph.value(copy).producer);
      if (!std::holds_alternative<ReshardOp>(made.op)) return {};
      copy = made.inputs[0];
    }
    return copy;
  }

  /// How values would lie that are whole only to be cut for who reads them, and the work that ranks then do for all of
  /// them: what a claim costs that does not reach back.
  struct Repeated {
    Lies lies;
    double seconds = 0;
  };

  /// Nothing where something is sent, or nobody asks.
  Repeated repeated_for(const Movement& moved) const {
    Repeated result;
    const ValueId value = origin(moved.from);
    const auto cuts = [](const ReshardStep* step) {
      return step->kind == CollectiveKind::slice && step->to_dim >= 0 && !step->at.varying;
    };
    const std::vector<const ReshardStep*> steps = steps_of(moved);
    if (!in_parts_ || !value || !std::ranges::all_of(steps, cuts)) return result;
    Placement added = Placement::whole(graph_.type(value).dims.size());
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      auto& axes = added.dims[static_cast<size_t>((*step)->to_dim)].axes;
      axes.insert(axes.end(), (*step)->axes.begin(), (*step)->axes.end());
    }
    cut_from_start(value, added, result);
    return result;
  }

  /// `value` and what it is made of are also split over the axes `added`, as far back as nothing is.
  void cut_from_start(ValueId value, const Placement& added, Repeated& all) const {
    if (const auto carry = entering_.find(value); carry != entering_.end()) {
      const auto own = in_order(added, graph_.type(value).dims, graph_.type(carry->second).dims);
      if (own) cut_from_start(carry->second, *own, all);
      return;
    }
    if (all.lies.contains(value) || home(value).dims.size() != added.dims.size()) return;  // a free value
    Placement lies = complete(home(value));
    int64_t parts = 1;
    for (size_t i = 0; i < lies.dims.size(); ++i) {
      auto& axes = lies.dims[i].axes;
      const std::vector<AxisId>& more = added.dims[i].axes;
      const auto taken = [&](AxisId axis) { return home(value).uses(axis); };
      if (more.empty()) continue;
      if (lies.dims[i].deal || std::ranges::any_of(more, taken)) return;
      axes.insert(axes.end(), more.begin(), more.end());
      if (graph_.dim(graph_.type(value).dims[i]).size < mesh_.size(axes)) return;
      parts *= mesh_.size(more);
    }
    if (parts == 1) return;
    all.lies[value] = lies;
    const NodeId made = graph_.value(value).producer;
    const Node& node = graph_.node(made);
    if (const auto carry = carries_.find(value); carry != carries_.end()) {
      for (const ValueId other : {carry->second->initial, carry->second->leaving})
        if (const auto own = in_order(added, graph_.type(value).dims, graph_.type(other).dims))
          cut_from_start(other, *own, all);
    } else if (const auto turn = turn_of_.find(value); turn != turn_of_.end()) {
      const std::vector<DimId>& dims = graph_.type(value).dims;
      Placement of_turn = added;
      of_turn.dims.pop_front();
      if (const auto own = in_order(of_turn, {dims.begin() + 1, dims.end()}, graph_.type(turn->second).dims))
        cut_from_start(turn->second, *own, all);
    } else if (const auto stack = stack_of_.find(value); stack != stack_of_.end()) {
      const std::vector<DimId>& dims = graph_.type(stack->second).dims;
      if (auto own = in_order(added, graph_.type(value).dims, {dims.begin() + 1, dims.end()})) {
        own->dims.push_front({});
        cut_from_start(stack->second, *own, all);
      }
    } else if (!std::holds_alternative<LoopOp>(node.op) && value == node.results[0]) {  // others follow it
      all.seconds +=
          work_.seconds(placed_.graph.node(made)) * turns_around(value) * (1 - 1 / static_cast<double>(parts));
      for (size_t i = 0; i < node.inputs.size(); ++i)
        cut_from_start(node.inputs[i], operand_placement(graph_, node, i, added), all);
    }
  }

  void avoid(const Movement& moved) {
    const ValueId value = origin(moved.from);
    if (!value) return;
    if (const Repeated repeated = repeated_for(moved); repeated.seconds > 0) add(repeated.lies);
    const Placement from = complete(placed_.placement(moved.from)), to = complete(placed_.placement(moved.to));
    const Node& producer = graph_.node(graph_.value(value).producer);
    before_views(value, to);
    if (moved.user && moved.user == graph_.value(value).producer) {
      Lies before;
      for (const ValueId input : elementwise_inputs(producer)) spread(input, to, value, before);
      add(before);
    } else {
      add({{value, to}});
      Lies before;
      spread(value, to, value, before);
      add(before);
      source(producer, to);
    }
    for (const ValueId entering : found(leaves_as_, value))
      if (const auto lies = in_order(from, graph_.type(value).dims, graph_.type(entering).dims))
        add({{entering, *lies}});
    for (const ReshardStep* step : steps_of(moved))
      if (step->kind == CollectiveKind::all_reduce) scatter(value, to, step->axes, moved.user);
    if (moved.user && moved.user.index < graph_.nodes.size())
      for (std::map<NodeId, int>& group : products_.of(moved.user)) add(Wish{{}, std::move(group)});
  }

  /// What the value is another view of lies as it shall.
  void before_views(ValueId value, Placement lies) {
    for (;;) {
      const Node& view = graph_.node(graph_.value(value).producer);
      const auto before = mesh::before_view(graph_, mesh_, view, lies);
      if (!before) return;
      value = view.inputs[0];
      lies = *before;
      add({{value, lies}});
    }
  }

  /// A partial sum that was completed everywhere: along each dim that somebody slices over these axes, so that each
  /// rank throws the sums of others away; for a product along any, so that not each rank multiplies all of it.
  void scatter(ValueId value, const Placement& whole, std::vector<AxisId> axes, NodeId reader) {
    std::erase_if(axes, [&](AxisId axis) { return whole.uses(axis); });  // cut afterwards, which the planner weighs
    if (axes.empty()) return;
    const DeclaredAxes declared = declared_.of(value);
    const bool multiplied =
        in_parts_ && reader && reader.index < graph_.nodes.size() && is_product(graph_.node(reader));
    for (size_t i = 0; i < whole.dims.size(); ++i) {
      if (declared[i] && !declared_.may_lie_otherwise(value)) continue;
      const DimId dim = known(graph_.type(value).dims[i]);
      const auto sliced = [&](AxisId axis) { return sliced_.contains({dim, axis}); };
      if (!multiplied && std::ranges::none_of(axes, sliced)) continue;
      if (whole.dims[i].deal) continue;  // of so many ranks
      Placement lies = whole;
      auto& split = lies.dims[i].axes;
      split.insert(split.end(), axes.begin(), axes.end());
      if (graph_.dim(graph_.type(value).dims[i]).size >= mesh_.size(split)) add({{value, lies}});
    }
  }

  static bool is_product(const Node& node) { return has_products(definition(node.op).effort(node.op)); }

  /// What a partial sum is made of: split as its result shall be, it leaves no sum to complete, for all of its readers.
  void source(const Node& product, const Placement& result) {
    if (!is_product(product) || product.results.size() != 1) return;
    for (size_t i = 0; i < product.inputs.size(); ++i) {
      const Placement lies = operand_placement(graph_, product, i, result);
      if (std::ranges::all_of(lies.dims, [](const DimPlacement& dim) { return dim.axes.empty(); })) continue;
      Lies before;
      spread(product.inputs[i], lies, product.inputs[i], before);
      add(before);
    }
  }

  /// One of the names of a dim, the same for all of them.
  DimId known(DimId dim) const {
    for (auto at = same_.find(dim); at != same_.end() && at->second != dim; at = same_.find(dim)) dim = at->second;
    return dim;
  }

  std::vector<ValueId> elementwise_inputs(const Node& node) const {
    return is_elementwise(node.op) ? node.inputs : std::vector<ValueId>{};
  }

  /// `value` and what it is computed from element by element lie as `of` does as `lies`.
  void spread(ValueId value, const Placement& lies, ValueId of, Lies& all) const {
    const auto own = in_order(lies, graph_.type(of).dims, graph_.type(value).dims);
    if (!own || all.contains(value)) return;
    all[value] = *own;
    const Node& node = graph_.node(graph_.value(value).producer);
    if (node.results.size() == 1)
      for (const ValueId input : elementwise_inputs(node)) spread(input, lies, of, all);
  }

  void add(const Lies& wanted) {
    Lies lies;
    for (const auto& [value, placement] : wanted)
      if (const auto decidable = decision(value, placement)) lies.insert(*decidable);
    if (!lies.empty()) add(Wish{std::move(lies), {}});
  }

  void add(Wish wish) {
    if (std::ranges::find(ways_, wish) == ways_.end()) ways_.push_back(std::move(wish));
  }

  /// Of whom it is decided: of a carry where it enters, of a turn of what a loop stacked the stack. Nothing for what is
  /// stored, and where a rank would hold more.
  std::optional<std::pair<ValueId, Placement>> decision(ValueId value, Placement lies) const {
    if (home(value).dims.size() != lies.dims.size()) return {};  // a free value: made wherever it is needed
    const auto elements = [&](const Placement& placement) {
      return local_elements(graph_, mesh_, graph_.type(value), placement);
    };
    if (elements(lies) > elements(complete(home(value)))) return {};
    if (const auto carry = entering_.find(value); carry != entering_.end()) {
      const auto own = in_order(lies, graph_.type(value).dims, graph_.type(carry->second).dims);
      return own ? std::optional(std::pair(carry->second, *own)) : std::nullopt;
    }
    if (const auto stack = stack_of_.find(value); stack != stack_of_.end()) {
      if (!is_stack(stack->second)) return {};
      const std::vector<DimId>& dims = graph_.type(stack->second).dims;
      auto own = in_order(lies, graph_.type(value).dims, {dims.begin() + 1, dims.end()});
      if (!own) return {};
      own->dims.push_front({});
      return std::pair(stack->second, *own);
    }
    if (is_stack(value)) {
      if (lies.dims[0].axes.empty()) return std::pair(value, lies);
      return {};
    }
    if (std::holds_alternative<ReadOp>(graph_.node(graph_.value(value).producer).op)) return {};
    return std::pair(value, std::move(lies));
  }

  bool is_stack(ValueId value) const { return std::ranges::binary_search(stacks_, value); }
  const Placement& home(ValueId value) const { return placed_.placement(value); }
  static std::vector<ValueId> found(const std::map<ValueId, std::vector<ValueId>>& in, ValueId value) {
    const auto at = in.find(value);
    return at == in.end() ? std::vector<ValueId>{} : at->second;
  }

  const Graph& graph_;
  const ShardedGraph& placed_;
  const MeshShape& mesh_;
  const Declared declared_;
  const ProductGroups products_;
  const Work work_;
  const bool in_parts_;
  std::map<DimId, DimId> same_;                        // by renames: another name of a dim
  std::set<std::pair<DimId, AxisId>> sliced_;          // what somebody wants a part of
  std::map<ValueId, ValueId> entering_, stack_of_;     // of results of carries, of turns of slices
  std::map<ValueId, ValueId> turn_of_;                 // of what loops collect
  std::map<ValueId, const LoopOp::Carry*> carries_;    // by what enters a turn
  std::map<ValueId, std::vector<ValueId>> leaves_as_;  // the carries that a value leaves a turn as
  std::vector<ValueId> stacks_;                        // what loops collect; sorted
  std::vector<Wish> ways_;
};

}  // namespace

std::vector<std::vector<Wish>> wishes(const Graph& graph, const ShardedGraph& placed, bool in_parts) {
  return Movements(graph, placed, in_parts).run();
}

}  // namespace mesh
