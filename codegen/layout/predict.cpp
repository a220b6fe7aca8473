#include "codegen/layout/predict.h"

#include <algorithm>
#include <map>

#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"
#include "codegen/layout/cost.h"
#include "codegen/layout/declared.h"
#include "codegen/layout/work.h"

namespace mesh {
namespace {

class Predictor {
 public:
  Predictor(const ShardedGraph& sharded, const std::vector<uint32_t>& calls)
      : sharded_(sharded),
        calls_(calls),
        graph_(sharded.graph),
        declared_(sharded.graph, sharded.layout),
        work_(sharded) {
    for (const Node& node : graph_.nodes)
      if (const UpdateOp* update = std::get_if<UpdateOp>(&node.op)) updates_[node.inputs[0]] = update->stored;
    for (const Movement& moved : sharded_.movements)
      for (ValueId at = moved.to; at != moved.from; at = graph_.node(graph_.value(at).producer).inputs[0]) {
        const uint32_t step = std::get<ReshardOp>(graph_.node(graph_.value(at).producer).op).step;
        if (sharded_.steps[step].kind == CollectiveKind::ring) rings_[moved.user].push_back(&sharded_.steps[step]);
      }
  }

  Prediction run() {
    body(graph_.root(), 1, 1);
    result_.pipeline = planned_pipeline(sharded_);
    if (const std::optional<PlannedPipeline>& pipeline = result_.pipeline) {
      const PlannedRank& slowest = pipeline->slowest();
      result_.compute_seconds = pipeline->costs.outside_compute + pipeline->busy_seconds() -
                                static_cast<double>(pipeline->micro_batches) * slowest.work.communication;
      for (const StageMessage& one : pipeline->costs.crossings)
        result_.messages.push_back({one, pipeline->micro_batches});
    }
    return std::move(result_);
  }

 private:
  /// Executed so many times in all, and at most so many times on one rank.
  void body(BodyId id, int64_t times, int64_t on_a_rank) {
    const double before = result_.compute_seconds;
    std::vector<size_t> calls;  // of this body itself
    for (NodeId n : graph_.body(id).nodes) {
      const Node& node = graph_.node(n);
      if (const LoopOp* loop = std::get_if<LoopOp>(&node.op)) {
        const int64_t turns = graph_.dim(loop->dim).size;
        body(loop->body, times * turns, on_a_rank * turns_made(sharded_, *loop));
      } else if (const ReshardOp* reshard = std::get_if<ReshardOp>(&node.op)) {
        const size_t known = result_.collectives.size();
        collective(node, reshard->step, on_a_rank);
        for (size_t i = known; i < result_.collectives.size(); ++i)
          if (meets(result_.collectives[i]) && result_.collectives[i].call == reshard->step) calls.push_back(i);
      } else {
        work(n, times, on_a_rank);
      }
    }
    const double work_between =
        (result_.compute_seconds - before) / (static_cast<double>(on_a_rank) * static_cast<double>(calls.size()));
    for (const size_t i : calls) meets_after(work_between, result_.collectives[i]);
  }

  /// What goes round meets while its op works on it.
  static bool meets(const PlannedCollective& one) { return sends(one.kind) && one.kind != CollectiveKind::ring; }

  /// Ranks that have worked for longer come further apart than after usual work, after less they come closer.
  void meets_after(double work, PlannedCollective& call) {
    const auto meeting = [&](double after) {
      return meeting_seconds(sharded_.machine, sharded_.layout.mesh, call.axes, after);
    };
    const double more = meeting(work) - meeting(usual_work);
    call.seconds += more;
    result_.communication_seconds += more * static_cast<double>(call.count);
  }

  void collective(const Node& node, uint32_t index, int64_t times) {
    const ReshardStep& step = sharded_.steps[index];
    if (step.axes.empty() || step.at.varying) return;  // nobody else takes part
    times *= step.calls;
    const uint32_t first = calls_.empty() ? index : calls_[index];
    const int64_t group = group_size(sharded_.layout.mesh, step);
    const double saved =
        first == index ? 0 : collective_seconds(sharded_.machine, sharded_.layout.mesh, step.axes, step.kind, 0, group);
    const double seconds = step.seconds - saved;
    const Declared::Kind moved = moved_kind(node);
    const auto [name, named] = moved_name(node);
    result_.collectives.push_back({step.kind,
                                   step.axes,
                                   group,
                                   name,
                                   named,
                                   step.bytes,
                                   times,
                                   times / step.turns * step.busy,
                                   seconds,
                                   phase_of(node.part),
                                   node.span,
                                   node.scope,
                                   node.called(),
                                   step.reason,
                                   step.rule,
                                   moved.kind,
                                   moved.paths,
                                   node.results[0],
                                   first,
                                   senders(node, step),
                                   bytes_of_stages(node.inputs[0], step)});
    result_.communication_seconds += seconds * static_cast<double>(times);
  }

  /// Stages have unlike numbers of turns of what they move each among its own ranks.
  std::vector<int64_t> bytes_of_stages(ValueId moved, const ReshardStep& step) const {
    const Pipeline& pipeline = sharded_.layout.pipeline;
    if (!pipeline || contains(step.axes, pipeline.axis)) return {};
    const std::vector<DimId>& dims = graph_.type(moved).dims;
    for (size_t i = 0; i < dims.size(); ++i) {
      const DimPlacement& split = sharded_.placement(moved).dims[i];
      if (split.axes != std::vector{pipeline.axis}) continue;
      const MeshShape& mesh = sharded_.layout.mesh;
      const int64_t size = graph_.dim(dims[i]).size, most = largest_extent(mesh, size, split);
      std::vector<int64_t> bytes;
      for (int64_t stage = 0; stage < mesh.axes[pipeline.axis].size; ++stage)
        bytes.push_back(step.bytes * positions_of_part(mesh, size, split, stage).size() / most);
      return std::ranges::count(bytes, step.bytes) == std::ssize(bytes) ? std::vector<int64_t>{} : bytes;
    }
    return {};
  }

  /// To one coordinate all others send, and one to all of them; else those send who have it, if these are not all.
  Where senders(const Node& reshard, const ReshardStep& step) const {
    const auto is_some = [](const Where& where) { return !where.coordinates.empty(); };
    if (!is_some(step.at)) {
      const std::vector<Where>& at = sharded_.placement(reshard.inputs[0]).at;
      const auto some = std::ranges::find_if(at, is_some);
      return some == at.end() ? Where{} : *some;
    }
    if (step.kind == CollectiveKind::broadcast) return {step.at.axis, {step.at.coordinates.front()}};
    if (step.kind != CollectiveKind::reduce) return step.at;
    Where others{step.at.axis};
    for (int64_t c = 0; c < sharded_.layout.mesh.axes[step.at.axis].size; ++c)
      if (std::ranges::count(step.at.coordinates, c) == 0) others.coordinates.push_back(c);
    return others;
  }

  struct Told {
    std::string name;
    bool named;  // else it is what the op is called that makes it
  };
  /// What a movement moves, as a reader knows it: the parameter or state that it becomes, its name, that of what it is
  /// a turn of ("d_layer.norm1" is the gradient of `layer.norm1`), else the op that makes it.
  Told moved_name(const Node& reshard) const {
    if (const auto updated = updates_.find(reshard.results[0]); updated != updates_.end())
      return {graph_.stored[updated->second.index].path, true};
    ValueId value = reshard.inputs[0];
    while (true) {
      if (const std::string& name = known_as(graph_, value); !name.empty()) return {name, true};
      if (const ValueId gathered = gathered_from(value); gathered && !known_as(graph_, gathered).empty())
        return {known_as(graph_, gathered), true};
      const Node& producer = graph_.node(graph_.value(value).producer);
      if (std::holds_alternative<ReshardOp>(producer.op)) value = producer.inputs[0];
      else if (const ValueId stacked = slice_of(producer, value)) value = stacked;
      else if (const ValueId turn = last_turn_of(producer, value)) value = turn;
      else break;
    }
    const ValueId gathered = gathered_from(reshard.results[0]);
    if (gathered && !known_as(graph_, gathered).empty()) return {known_as(graph_, gathered), true};
    const std::string& view = graph_.value(value).label;  // what it is seen as, where it moves before it is split
    if (graph_.names.contains(view)) return {view, true};
    return {op_text(graph_, graph_.node(graph_.value(value).producer).op), false};
  }

  /// What the rules take it for: the stored tensor that it becomes, else what it comes from.
  Declared::Kind moved_kind(const Node& reshard) const {
    if (const auto updated = updates_.find(reshard.results[0]); updated != updates_.end())
      return declared_.kind_of(graph_.stored[updated->second.index].value);
    for (ValueId value : {reshard.results[0], gathered_from(reshard.results[0])})
      if (value && declared_.parameter_of_gradient(value)) return declared_.kind_of(value);
    ValueId value = reshard.inputs[0];
    while (!declared_.parameter_of_gradient(value)) {
      const Node& producer = graph_.node(graph_.value(value).producer);
      if (const ValueId stacked = slice_of(producer, value)) value = stacked;
      else if (std::holds_alternative<ReshardOp>(producer.op)) value = producer.inputs[0];
      else break;
    }
    const Declared::Kind kind = declared_.kind_of(value);
    const bool scope_only = kind.kind == ValueKind::nameless ||
                            (kind.kind == ValueKind::activation && graph_.names.count(kind.paths.path) == 0);
    return scope_only ? Declared::Kind{ValueKind::activation, {""}} : kind;
  }

  /// What all turns of a loop together make of its value.
  ValueId gathered_from(ValueId turn) const {
    const NodeId owner = graph_.body(graph_.value(turn).body).owner;
    const LoopOp* loop = owner ? std::get_if<LoopOp>(&graph_.node(owner).op) : nullptr;
    if (loop != nullptr)
      for (const auto& one : loop->collects)
        if (one.turn == turn) return one.stacked;
    return {};
  }

  /// What a loop's argument is a turn of.
  static ValueId slice_of(const Node& loop_node, ValueId turn) {
    if (const LoopOp* loop = std::get_if<LoopOp>(&loop_node.op))
      for (const auto& slice : loop->slices)
        if (slice.turn == turn) return slice.stacked;
    return {};
  }

  /// What the last turn of a loop leaves; of what adds up what a turn adds.
  ValueId last_turn_of(const Node& loop_node, ValueId result) const {
    const auto* loop = std::get_if<LoopOp>(&loop_node.op);
    if (loop == nullptr) return {};
    const auto carry = std::ranges::find(loop->carries, result, &LoopOp::Carry::result);
    if (carry == loop->carries.end()) return {};
    return only_adds_up(graph_, *loop, *carry) ? graph_.node(graph_.value(carry->leaving).producer).inputs[1]
                                               : carry->leaving;
  }

  void work(NodeId id, int64_t times, int64_t on_a_rank) {
    const Node& node = graph_.node(id);
    result_.flops += definition(node.op).flops(graph_, node) * static_cast<double>(times);
    if (has_products(definition(node.op).effort(node.op)))
      result_.product_flops += work_.flops(node) * static_cast<double>(on_a_rank);
    const double seconds = work_.seconds(node);
    result_.compute_seconds += static_cast<double>(on_a_rank) * seconds;
    if (const auto rings = rings_.find(id); rings != rings_.end())
      result_.hidden_seconds += static_cast<double>(on_a_rank) * hidden(rings->second, seconds);
  }

  double hidden(const std::vector<const ReshardStep*>& rings, double work) const {
    double passing = 0;
    for (const ReshardStep* ring : rings) passing += ring->seconds;
    return passing - ring_wait(sharded_.machine, sharded_.layout.mesh, rings, work);
  }

  const ShardedGraph& sharded_;
  const std::vector<uint32_t>& calls_;
  const Graph& graph_;
  const Declared declared_;
  const Work work_;
  std::map<ValueId, StoredId> updates_;                      // what is written back at the end of the step
  std::map<NodeId, std::vector<const ReshardStep*>> rings_;  // by op: what goes round while it works
  Prediction result_;
};

/// Of one coordinate of the pipeline's axis.
int64_t handed_on(const Prediction& step, int rank) {
  int64_t all = 0;
  for (const PlannedMessage& message : step.messages)
    all += message.volume() * givers_on(rank, !message.what.down, step.pipeline->rank_of_stage, message.what.among);
  return all;
}

/// In collectives, by one coordinate of an axis.
int64_t sent_by(const Prediction& step, AxisId axis, int rank) {
  int64_t all = 0;
  for (const PlannedCollective& one : step.collectives) {
    const std::vector<int64_t>& some = one.senders.coordinates;
    if (!some.empty() && one.senders.axis == axis && std::ranges::count(some, rank) == 0) continue;
    all += one.bytes_of_stages.empty() ? volume(one) : one.bytes_of_stages[static_cast<size_t>(rank)] * one.sending;
  }
  return all;
}

}  // namespace

int64_t bytes_handed_on(const Prediction& step) {
  int64_t most = 0;
  if (step.pipeline)
    for (const int rank : step.pipeline->rank_of_stage) most = std::max(most, handed_on(step, rank));
  return most;
}

double Prediction::seconds() const {
  return compute_seconds + communication_seconds + (pipeline ? pipeline->bubble_seconds() : 0);
}

int64_t bytes_sent(const Prediction& step) {
  int64_t most = 0;
  if (step.pipeline)
    for (const int rank : step.pipeline->rank_of_stage)
      most = std::max(most, handed_on(step, rank) + sent_by(step, step.pipeline->axis, rank));
  else
    for (const PlannedCollective& one : step.collectives) most += volume(one);
  return most;
}

Prediction predict(const ShardedGraph& sharded, const std::vector<uint32_t>& calls) {
  return Predictor(sharded, calls).run();
}

}  // namespace mesh
