#include "codegen/layout/pipeline_costs.h"

#include <algorithm>
#include <set>

#include "codegen/layout/cost.h"
#include "codegen/layout/divided.h"
#include "codegen/layout/stages.h"
#include "codegen/layout/work.h"
#include "codegen/schedule/in_flight.h"
#include "codegen/schedule/lower_schedule.h"

namespace mesh {

void StageWork::add(const StageWork& other, double times) {
  seconds.forward += times * other.seconds.forward;
  seconds.input_gradient += times * other.seconds.input_gradient;
  seconds.weight_gradient += times * other.seconds.weight_gradient;
  seconds.recompute += times * other.seconds.recompute;
  communication += times * other.communication;
  held += static_cast<int64_t>(times) * other.held;
  kept += static_cast<int64_t>(times) * other.kept;
}

StageWork PipelineCosts::stage(meshrt::IndexRange row, bool is_first, bool is_last) const {
  StageWork all;
  if (is_first) all.add(gaps.front());
  int64_t begin = 0;
  for (size_t loop = 0; loop < loops.size(); begin += loops[loop++]) {
    const int64_t end = begin + loops[loop];
    if (loop > 0 && row.begin <= begin && begin < row.end) all.add(gaps[loop]);
    const int64_t own = std::min(row.end, end) - std::max(row.begin, begin);
    if (own > 0) all.add(turns[loop], static_cast<double>(own));
  }
  if (is_last) all.add(gaps.back());
  return all;
}

namespace {

class Costs {
 public:
  Costs(const ShardedGraph& sharded, const Stages& stages)
      : sharded_(sharded), graph_(sharded.graph), stages_(stages), work_(sharded) {}

  PipelineCosts run() {
    for (const PipelineLoop& loop : sharded_.layout.pipeline.loops) costs_.loops.push_back(loop.turns);
    costs_.turns.resize(costs_.loops.size());
    costs_.gaps.resize(costs_.loops.size() + 1);
    costs_.held_at.resize(sharded_.layout.pipeline.lists.ranks.size());
    for (const NodeId id : graph_.body(stages_.body()).nodes) {
      const Node& node = graph_.node(id);
      const auto* loop = std::get_if<LoopOp>(&node.op);
      const bool divided = loop && stages_.is_divided(*loop);
      if (divided && !stages_.is_again(*loop)) crossings(*loop);
      const bool again = node.part == Part::recompute && stages_.recomputes();
      add_seconds(id, 1, divided ? turn_of(loop->dim) : of(stages_.place(id)), again);
    }
    held();
    kept();
    outside(graph_.root(), 1);
    return std::move(costs_);
  }

 private:
  StageWork& of(StagePlace place) { return place.kind == StagePlace::Kind::gap ? costs_.gaps[place.gap] : costs_.each; }

  StageWork& turn_of(DimId loop) { return costs_.turns[sharded_.layout.pipeline.loop_over(loop).value()]; }

  double seconds_of(const Node& node) const {
    const auto* reshard = std::get_if<ReshardOp>(&node.op);
    if (!reshard) return work_.seconds(node);
    const ReshardStep& step = sharded_.steps[reshard->step];
    return static_cast<double>(step.calls) * step.seconds;
  }

  /// Of a divided loop those of one turn.
  void add_seconds(NodeId id, double times, StageWork& to, bool again) {
    const Node& node = graph_.node(id);
    if (const auto* loop = std::get_if<LoopOp>(&node.op)) {
      const double turns = stages_.is_divided(*loop) ? 1 : static_cast<double>(graph_.dim(loop->dim).size);
      for (const NodeId inner : graph_.body(loop->body).nodes) add_seconds(inner, times * turns, to, again);
      return;
    }
    const double seconds = times * seconds_of(node);
    if (again) to.seconds.recompute += seconds;
    else if (node.part == Part::forward) to.seconds.forward += seconds;
    else if (node.part == Part::weight_gradient) to.seconds.weight_gradient += seconds;
    else to.seconds.input_gradient += seconds;
    if (std::holds_alternative<ReshardOp>(node.op)) to.communication += seconds;
  }

  /// Loops have no work of their own, and the pipeline is one.
  void outside(BodyId body, double times) {
    for (const NodeId id : graph_.body(body).nodes) {
      const Node& node = graph_.node(id);
      const auto* loop = std::get_if<LoopOp>(&node.op);
      if (loop && stages_.is_pipeline(*loop)) continue;
      if (loop) outside(loop->body, times * static_cast<double>(turns_made(sharded_, *loop)));
      else if (!std::holds_alternative<ReshardOp>(node.op)) costs_.outside_compute += times * work_.seconds(node);
    }
  }

  /// Without a dim of the pipeline's loops, by which stages have it turn by turn.
  int64_t bytes(ValueId value) const {
    const ValueType& type = graph_.type(value);
    const Placement& placement = sharded_.placement(value);
    int64_t elements = 1;
    for (size_t i = 0; i < type.dims.size(); ++i)
      if (!sharded_.layout.pipeline.loop_over(type.dims[i]))
        elements *= largest_extent(sharded_.layout.mesh, graph_.dim(type.dims[i]).size, placement.dims[i]);
    return elements * static_cast<int64_t>(meshrt::size_of(type.element));
  }

  /// With a turn of the loop by whose dim stages have the value, with the ends that alone have it, the coordinates that
  /// have turns which do, or with each rank.
  void hold(ValueId value) {
    const int64_t held = bytes(value);
    for (const DimId dim : graph_.type(value).dims)
      if (sharded_.layout.pipeline.loop_over(dim)) {
        turn_of(dim).held += held;
        return;
      }
    const Where* where = sharded_.placement(value).where(sharded_.layout.pipeline.axis);
    if (!where || where->owner) {
      costs_.each.held += held;
      return;
    }
    std::set<int64_t> left(where->coordinates.begin(), where->coordinates.end());
    for (size_t gap = 0; gap < costs_.gaps.size(); ++gap)
      if (left.erase(stages_.at_gap(gap).coordinates.front()) > 0) costs_.gaps[gap].held += held;
    for (const int64_t coordinate : left) costs_.held_at[static_cast<size_t>(coordinate)] += held;
  }

  void held() {
    for (const Stored& stored : graph_.stored)
      if (stored.kind != StoredKind::input) hold(stored.value);
    const NodeId time = graph_.body(stages_.body()).owner;
    for (const LoopOp::Carry& sum : std::get<LoopOp>(graph_.node(time).op).carries) hold(sum.result);
  }

  /// What the divided loop stacks for its gradients, what F of the ends leaves to their B, and I to W.
  void kept() {
    std::set<ValueId> counted;
    const auto keep = [&](ValueId value, Part reader) {
      const NodeId producer = graph_.value(value).producer;
      const Node& made = graph_.node(producer);
      const bool apart = sharded_.layout.pipeline.has_weights_apart() && reader == Part::weight_gradient;
      const bool computed = made.part == Part::forward || made.part == Part::recompute;
      if (made.body != stages_.body() || made.part == reader || (!computed && !apart)) return;
      if (!counted.insert(value).second) return;
      const auto* loop = std::get_if<LoopOp>(&made.op);
      const bool stacked =
          loop && std::ranges::find(loop->collects, value, &LoopOp::Collect::stacked) != loop->collects.end();
      if (loop && stages_.is_divided(*loop) && stacked) turn_of(loop->dim).kept += bytes(value);
      else of(stages_.place_of(value)).kept += bytes(value);
    };
    for (const NodeId id : graph_.body(stages_.body()).nodes)
      if (graph_.node(id).part != Part::forward && graph_.node(id).part != Part::recompute)
        for (const ValueId input : graph_.node(id).inputs) keep(input, graph_.node(id).part);
  }

  void crossings(const LoopOp& loop) {
    const AxisId axis = sharded_.layout.pipeline.axis;
    const StageRange among = stages_.range(loop);
    if (among.first == among.last) return;
    const size_t number = sharded_.layout.pipeline.loop_over(loop.dim).value();
    for (const LoopOp::Carry& carry : loop.carries) {
      if (!is_handed_on(sharded_.placement(carry.result))) continue;
      const int64_t sent = bytes(carry.entering);
      const double seconds =
          transfer_seconds(sharded_.machine, sharded_.layout.mesh, {axis}, CollectiveKind::permute, sent);
      costs_.crossings.push_back({axis, name_of(carry), sent, seconds, loop.reverse, number, among});
    }
  }

  std::string name_of(const LoopOp::Carry& carry) const {
    for (const ValueId value : {carry.result, carry.leaving, carry.entering})
      for (const std::string* name : {&graph_.value(value).name, &graph_.value(value).label})
        if (!name->empty()) return *name;
    return "the carry";
  }

  const ShardedGraph& sharded_;
  const Graph& graph_;
  const Stages& stages_;
  const Work work_;
  PipelineCosts costs_;
};

}  // namespace

std::optional<PipelineCosts> pipeline_costs(const ShardedGraph& sharded) {
  const Stages stages(sharded.graph, sharded.layout);
  if (!stages) return std::nullopt;
  return Costs(sharded, stages).run();
}

int64_t PipelineCosts::boundary(size_t loop) const {
  int64_t bytes = 0;
  for (const StageMessage& one : crossings)
    if (!one.down && one.loop == loop) bytes += one.bytes;
  return bytes;
}

int64_t PipelineCosts::boundary_after(int64_t row) const {
  size_t loop = 0;
  for (int64_t end = loops[0]; end < row; end += loops[loop]) ++loop;
  return boundary(loop);
}

double PipelineCosts::message_seconds() const {
  double most = 0;
  for (size_t loop = 0; loop < loops.size(); ++loop) {
    double up = 0, down = 0;
    for (const StageMessage& one : crossings)
      if (one.loop == loop) (one.down ? down : up) += one.seconds;
    most = std::max({most, up, down});
  }
  return most;
}

PipelineModel model_of(const PipelineCosts& costs, const PipelineSchedule& schedule, std::optional<int64_t> memory,
                       const Pipeline& pipeline) {
  const auto layer = [](const StageWork& work, int64_t boundary) {
    const StageCosts& seconds = work.seconds;
    return PipelineLayer{seconds.forward + seconds.recompute + seconds.input_gradient + seconds.weight_gradient,
                         work.held, work.kept, boundary};
  };
  PipelineModel model;
  for (size_t loop = 0; loop < costs.loops.size(); ++loop)
    for (int32_t turn = 0; turn < costs.loops[loop]; ++turn) {
      StageWork work = costs.turns[loop];
      if (turn == 0 && loop > 0) work.add(costs.gaps[loop]);
      model.layers.push_back(layer(work, costs.boundary(loop)));
    }
  model.before = layer(costs.gaps.front(), 0);
  model.after = layer(costs.gaps.back(), 0);
  model.first_alone = pipeline.first_alone;
  model.last_alone = pipeline.last_alone;
  model.rank_of_stage = schedule.rank_of_stage();
  // All stages have as many slots as the one that needs most (program/pipeline_slots.h).
  const int32_t inputs = ring_of(schedule);
  const bool again = schedule.has(ActionKind::recompute);
  const int32_t kept = again ? ring_of(schedule, ActionKind::recompute, ActionKind::weight_gradient) : inputs;
  model.in_flight.assign(model.rank_of_stage.size(), {inputs, kept});
  // Gradients, and where F keeps only a copy of what came into the stage, what it hands on.
  const int32_t slots = slots_of_messages(schedule, with_messages(schedule, pipeline.waiting).value().waiting);
  model.messages = schedule.stages > 1 ? (again ? 2 : 1) * slots : 0;
  if (memory) model.memory = *memory - costs.each.held - std::ranges::max(costs.held_at) - kept * costs.each.kept;
  return model;
}

}  // namespace mesh
