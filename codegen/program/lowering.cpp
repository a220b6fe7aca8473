#include "codegen/program/lowering.h"

#include <algorithm>
#include <utility>

#include "codegen/graph/op.h"
#include "codegen/program/extent.h"

namespace mesh {

Lowering::Lowering(Program& program, const ShardedGraph& sharded, std::vector<BufferId> stored, uint32_t first_step,
                   std::vector<std::vector<DimId>> order)
    : program_(program),
      sharded_(sharded),
      graph_(sharded.graph),
      stages_(graph_, sharded.layout),
      stored_(std::move(stored)),
      first_step_(first_step),
      order_(std::move(order)),
      memory_(graph_.values.size()),
      target_(graph_.values.size()),
      needs_memory_(graph_.values.size()),
      readers_(graph_.values.size()),
      slices_(graph_.values.size()),
      serves_(graph_.values.size()),
      stored_names_(graph_),
      work_(sharded) {
  find_readers();
  find_updated();
  find_named_readers();
}

void Lowering::find_readers() {
  const auto need = [&](ValueId value) { needs_memory_[value.index] = true; };
  for (const Body& body : graph_.bodies) {
    for (NodeId id : body.nodes) {
      const Node& node = graph_.node(id);
      for (ValueId input : node.inputs) ++readers_[input.index];
      const auto* reshard = std::get_if<ReshardOp>(&node.op);
      const bool slices = reshard && sharded_.steps[reshard->step].kind == CollectiveKind::slice;
      const bool moves = reshard && !slices && sharded_.steps[reshard->step].kind != CollectiveKind::halo;
      if (slices && sharded_.steps[reshard->step].to_dim >= 0) ++slices_[node.inputs[0].index];
      if (!definition(node.op).reads_elements(graph_, node) || (moves && !constant(node.results[0])))
        for (ValueId input : node.inputs) need(input);
      if (const auto* loop = std::get_if<LoopOp>(&node.op)) {
        for (const LoopOp::Carry& carry : loop->carries) need(carry.leaving), ++readers_[carry.leaving.index];
        for (const LoopOp::Collect& collect : loop->collects) need(collect.turn), ++readers_[collect.turn.index];
      }
    }
  }
  // What is handed out is computed before the updates, which overwrite what it reads.
  for (const Metric& metric : graph_.metrics) ++readers_[metric.value.index], need(metric.value);
  for (const Wanted& wanted : graph_.wanted) ++readers_[wanted.value.index], need(wanted.value);
  for (const Output& output : graph_.outputs)
    if (output.value) ++readers_[output.value.index], need(output.value);
}

void Lowering::preset(ValueId value, Access access) { memory_[value.index] = std::move(access); }

std::optional<Access> Lowering::found(ValueId value) const {
  const std::optional<Access>& access = memory_[value.index];
  return access && access->turns.empty() && graph_.value(value).body == graph_.root() ? access : std::nullopt;
}

void Lowering::lower_root(const std::vector<bool>& wanted, std::vector<Step>& steps) {
  steps_ = &steps;
  names_.emplace(program_);
  for (NodeId id : graph_.body(graph_.root()).nodes)
    if (wanted[id.index]) lower_node(id);
  at_ = {};
  lower_updates();
}

void Lowering::lower_body(BodyId body) {
  const double outside = std::exchange(seconds_, 0);
  for (NodeId id : graph_.body(body).nodes) lower_node(id);
  seconds_ = outside;
}

void Lowering::lower_node(NodeId id) {
  const Node& node = graph_.node(id);
  if (node.results.size() == 1 && memory_[node.results[0].index]) return;
  node_ = &node;
  seconds_ += work_.seconds(node);
  at_ = work_place(node);
  struct Visit {
    Lowering& to;
    const Node& node;
    void operator()(const ReadOp& op) const {
      to.memory_[node.results[0].index] = Access{to.stored_[op.stored.index], {}};
    }
    void formula() const { to.lower_formula(node.results[0]); }
    void operator()(const LiteralOp&) const { formula(); }
    void operator()(const PositionOp&) const { formula(); }
    void operator()(const StepOp&) const { formula(); }
    void operator()(const RateOp&) const { formula(); }
    void operator()(const RandomOp&) const { formula(); }
    void operator()(const BroadcastOp&) const { formula(); }
    void operator()(const MapOp&) const { to.lower_map(node); }
    void operator()(const ReduceOp&) const { to.lower_reduce(node); }
    void operator()(const ArgReduceOp&) const { to.lower_arg_reduce(node); }
    void operator()(const DotOp&) const { to.lower_dot(node); }
    void operator()(const RenameOp&) const { to.lower_rename(node); }
    void operator()(const SplitOp&) const { to.lower_split(node); }
    void operator()(const MergeOp&) const { to.lower_merge(node); }
    void operator()(const TakeOp&) const { to.lower_take(node); }
    void operator()(const ScatterOp&) const { to.lower_scatter(node); }
    void operator()(const SliceOp&) const { formula(); }
    void operator()(const PadOp&) const { formula(); }
    void operator()(const ShiftOp&) const { formula(); }
    void operator()(const ConcatOp&) const { to.lower_concat(node); }
    void operator()(const CumulativeOp&) const { to.lower_cumulative(node); }
    void operator()(const DefinedOp& op) const { op.kind->lower(to, node); }
    void operator()(const AttentionOp&) const { to.lower_attention(node); }
    void operator()(const AttentionGradientOp&) const { to.lower_attention_gradient(node); }
    void operator()(const UpdateOp&) const { to.updates_.push_back(&node); }
    void operator()(const UntilOp&) const { to.done_ = to.in_memory(node.inputs[0]); }
    void operator()(const LoopOp&) const { to.lower_loop(node); }
    void operator()(const ReshardOp&) const { to.lower_reshard(node); }
    void composite(const char* name) const {
      internal_error(std::string(name) + " was not decomposed before lowering");
    }
    void operator()(const SoftmaxOp&) const { composite("softmax"); }
    void operator()(const LogSoftmaxOp&) const { composite("log_softmax"); }
    void operator()(const LogSumExpOp&) const { composite("logsumexp"); }
  };
  std::visit(Visit{*this, node}, node.op);
}

/// Whether all stages of a rank make it for themselves, as what is needed in front of one loop and behind another, and
/// what they add up of their turns.
bool Lowering::is_of_each_stage(ValueId value) const {
  const auto over_stages = [&](const Partial& sum) { return sum.axis == sharded_.layout.pipeline.axis; };
  if (std::ranges::any_of(sharded_.placement(value).partial, over_stages)) return true;
  return graph_.value(value).body == stages_.body() && stages_.place_of(value) == StagePlace{};
}

/// The ranks that have a value, among those that come to it: where it varies each comes to its own turns alone.
Lowering::Place Lowering::where(ValueId value) const {
  Place place{sharded_.placement(value).at};
  std::erase_if(place.at, [](const Where& one) { return one.varying; });
  if (!stage_ || place.at.empty()) return place;
  const auto ranks = static_cast<int32_t>(sharded_.layout.pipeline.lists.ranks.size());
  if (const std::optional<int32_t> number = stages_.stage_of(value)) place.stage = {stage_, *number / ranks};
  else if (graph_.value(value).body != graph_.root() && !is_of_each_stage(value) &&
           std::ranges::find(place.at, sharded_.layout.pipeline.axis, &Where::axis) != place.at.end())
    internal_error("a value of one coordinate of a pipeline is of none of its stages");
  return place;
}

/// The ranks that have a node's results compute them. All come to a loop, and to what brings a value to one of them.
Lowering::Place Lowering::work_place(const Node& node) const {
  if (node.results.empty() || std::holds_alternative<LoopOp>(node.op)) return {};
  const auto* reshard = std::get_if<ReshardOp>(&node.op);
  const bool reduces = reshard && sharded_.steps[reshard->step].kind == CollectiveKind::reduce;
  return where(reduces ? node.inputs[0] : node.results[0]);
}

bool Lowering::could_be_formula(ValueId value) const {
  if (turn_.contains(value)) return true;
  const NodeId producer = graph_.value(value).producer;
  const Node& node = graph_.node(producer);
  if (std::holds_alternative<LoopOp>(node.op)) return false;
  if (constant(value)) return true;
  if (const auto* reshard = std::get_if<ReshardOp>(&node.op))
    return sharded_.steps[reshard->step].kind == CollectiveKind::slice;
  const Formula formula = definition(node.op).formula(node.op);
  if (formula.always || (formula.alone && readers_[value.index] == 1)) return true;
  if (formula.in_parts && readers_[value.index] > 0 && slices_[value.index] == readers_[value.index]) return true;
  return formula.of_formulas &&
         std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return is_formula(input); });
}

bool Lowering::is_formula(ValueId value) const {
  return !memory_[value.index] && !needs_memory_[value.index] && could_be_formula(value);
}

Step& Lowering::emit(StepKind what) {
  Step step{std::move(what), Part::forward, {}, {}, {}};
  if (node_) {
    step.part = node_->part;
    if (node_->span.known()) step.spans.push_back(node_->span);
    step.scope = node_->scope;
  }
  if (!std::holds_alternative<CollectiveStep>(step.what)) step.seconds = std::exchange(seconds_, 0);
  Steps& steps = steps_here();
  steps.push_back(std::move(step));
  return steps.back();
}

/// What only some ranks execute stands in a branch; neighbours share it.
Steps& Lowering::steps_here() {
  if (at_.at.empty() && !at_.stage) return *steps_;
  const Part part = node_ ? node_->part : Part::forward;
  const auto* last = steps_->empty() ? nullptr : std::get_if<BranchStep>(&steps_->back().what);
  if (last == nullptr || last->at != at_.at || last->stage != at_.stage || steps_->back().part != part)
    steps_->push_back({BranchStep{at_.at, {}, at_.stage}, part, {}, node_ ? node_->scope : "", {}});
  return std::get<BranchStep>(steps_->back().what).body;
}

}  // namespace mesh
