#include "codegen/gradient/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "codegen/gradient/micro_batches.h"
#include "codegen/gradient/sample_parts.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/value_names.h"
#include "codegen/graph/verify_graph.h"
#include "codegen/rewrites/decompose.h"
#include "meshrt/optimizer_names.h"

namespace mesh {
namespace {

class ReplicaLoop {
 public:
  explicit ReplicaLoop(Graph& graph) : graph_(graph), parts_(graph.replicas) {}

  void run() {
    own_parameters();
    const std::vector<NodeId> nodes = graph_.body(graph_.root()).nodes;
    begin_loop();
    own_scaling();
    std::vector<NodeId> outside;
    for (const NodeId id : nodes) (is_of_replica(id) ? graph_.body(op_.body).nodes : outside).push_back(id);
    take_given(outside);
    for (const NodeId id : graph_.body(op_.body).nodes) move_inside(id);
    read_turns(op_.body);
    graph_.body(graph_.root()).nodes = std::move(outside);
    graph_.body(graph_.root()).nodes.push_back(loop_);
    hand_out();
    graph_.node(loop_).op = op_;
    connect_loop(graph_.node(loop_));
    count_own_samples();
    name_parts(graph_, parts_, graph_.micro_batches, gathered_);
  }

 private:
  /// Each trained parameter has a tensor of the replicas' beside it, and is not read by a step any more.
  void own_parameters() {
    for (Objective::Parameter& parameter : graph_.objective->parameters) {
      const Stored shared = graph_.stored[parameter.stored.index];
      if (shared.frozen) continue;
      ValueType type = shared.type;
      type.dims.insert(type.dims.begin(), parts_.turns);
      GraphBuilder build(graph_);
      build.span = shared.span;
      const StoredId own =
          build.stored(StoredKind::optimizer, shared.path + meshrt::replica_suffix, type, {}, parameter.stored);
      graph_.stored[own.index].stacked = shared.stacked + 1;
      parameter.stored = own;
      stacked_[shared.value] = graph_.stored[own.index].value;
    }
    for (const Stored& stored : graph_.stored)
      if (stored.kind == StoredKind::input && has_samples(stored.value)) stacked_[stored.value] = stored.value;
    const std::optional<Objective::Scaling>& scaling = graph_.objective->scaling;
    if (!scaling || !scaling->scale) return;
    const ValueId scale = graph_.stored[scaling->scale.index].value;
    stacked_[scale] = scale;
  }

  /// Each skips steps by itself, so that none need wait for another: what is kept of a scaled loss it has of its own.
  /// Turns, which are there by now, read one scale.
  void own_scaling() {
    if (!graph_.objective->scaling) return;
    const Objective::Scaling& scaling = *graph_.objective->scaling;
    for (const StoredId id : {scaling.scale, scaling.good, scaling.skipped}) {
      if (!id) continue;
      Stored& kept = graph_.stored[id.index];
      kept.path += meshrt::replica_suffix;
      kept.stacked = 1;
      kept.type.dims = {parts_.turns};
      graph_.value(kept.value).name = kept.path;
      graph_.value(kept.value).type = kept.type;
    }
  }

  void begin_loop() {
    loop_ = NodeId{static_cast<uint32_t>(graph_.nodes.size())};
    graph_.nodes.push_back({LoopOp{}, {}, {}, graph_.root(), Part::forward, parts_.span, {}});
    op_.dim = parts_.turns;
    op_.body = GraphBuilder(graph_).new_body(loop_);
    for (const auto& [whole, stacked] : stacked_) {
      const Value turn = graph_.value(whole);
      turn_of_[whole] = GraphBuilder(graph_).argument_called(turn, turn.type, op_.body, loop_);
      op_.slices.push_back({stacked, turn_of_[whole]});
    }
  }

  /// What a number counts, for readers of the emitted program: the samples of a replica.
  void count_own_samples() {
    for (Node& node : graph_.nodes)
      if (auto* literal = std::get_if<LiteralOp>(&node.op))
        for (DimId& dim : literal->counts)
          if (const DimId own = name_in_part(parts_, dim)) dim = own;
  }

  bool has_samples(ValueId value) const { return mesh::has_samples(graph_, graph_.type(value)); }

  bool names_samples(Op op) const {
    bool found = false;
    for_each_dim(op, [&](DimId& dim) { found = found || name_in_part(parts_, dim); });
    return found;
  }

  /// Whether replicas compute it differently: of their parameters, or of their samples.
  bool is_of_replica(NodeId id) {
    const Node& node = graph_.node(id);
    if (std::holds_alternative<ReadOp>(node.op)) return false;
    const bool found = is_made_of_replica(node);
    if (found) of_replica_.insert(node.results.begin(), node.results.end());
    return found;
  }

  bool is_made_of_replica(const Node& node) const {
    return reads_replica(node) || names_samples(node.op) ||
           std::ranges::any_of(node.results, [&](ValueId one) { return has_samples(one); });
  }

  bool reads_replica(const Node& node) const {
    bool found = false;
    for_each_read(node, [&](ValueId value) {
      found = found || stacked_.contains(value) || of_replica_.contains(value) || (value && has_samples(value));
    });
    if (const auto* loop = std::get_if<LoopOp>(&node.op))
      for (const NodeId id : graph_.body(loop->body).nodes) found = found || is_made_of_replica(graph_.node(id));
    return found;
  }

  /// Numbers that replicas alone read, zeros that their sums begin with say, are made where they are read: from outside
  /// each turn would copy them.
  void take_given(std::vector<NodeId>& outside) {
    std::set<ValueId> read;
    for_each_caller(graph_, [&](ValueId& value) { read.insert(value); });
    for (const auto& [name, value] : graph_.names) read.insert(value);
    std::vector<NodeId> kept, taken;
    for (auto at = outside.rbegin(); at != outside.rend(); ++at) {
      const NodeId id = *at;
      const Node& node = graph_.node(id);
      const bool is_read = std::ranges::any_of(node.results, [&](ValueId one) { return read.contains(one); });
      const bool stays = is_read || std::holds_alternative<ReadOp>(node.op) || !is_given(graph_, node);
      (stays ? kept : taken).push_back(id);
      if (stays) for_each_read(node, [&](ValueId value) { read.insert(value); });
    }
    outside.assign(kept.rbegin(), kept.rend());
    std::vector<NodeId>& inside = graph_.body(op_.body).nodes;
    inside.insert(inside.begin(), taken.rbegin(), taken.rend());
  }

  void move_inside(NodeId id) {
    graph_.node(id).body = op_.body;
    for (const ValueId result : graph_.node(id).results) graph_.value(result).body = op_.body;
  }

  /// Nodes of the loop, at any depth, read their turn of what is stacked.
  void read_turns(BodyId body) {
    for (const NodeId id : graph_.body(body).nodes) {
      for_each_read(graph_.node(id), [&](ValueId& value) {
        if (const auto found = turn_of_.find(value); found != turn_of_.end()) value = found->second;
      });
      if (const auto* loop = std::get_if<LoopOp>(&graph_.node(id).op)) read_turns(loop->body);
    }
  }

  /// What the loop leaves of a value: those of all replicas.
  ValueId stacked(ValueId value) {
    const auto [known, fresh] = stacked_.try_emplace(value);
    if (!fresh) return known->second;
    ValueType type = graph_.type(value);
    type.dims.insert(type.dims.begin(), parts_.turns);
    known->second = GraphBuilder(graph_).argument_called(graph_.value(value), type, graph_.root(), loop_);
    op_.collects.push_back({value, known->second});
    return known->second;
  }

  /// Gradients and what a caller asks for leave the loop.
  void hand_out() {
    for (auto& [name, value] : graph_.names)
      if (is_gradient_name(name)) value = of_replica_.contains(value) ? stacked(value) : for_each_replica(value);
    for (Metric& metric : graph_.metrics)
      if (of_replica_.contains(metric.value)) metric.value = mean(metric);
    graph_.objective->loss = graph_.metrics.front().value;
    for (Wanted& wanted : graph_.wanted) hand_out(wanted.value);
    for (Output& output : graph_.outputs)
      if (output.value) hand_out(output.value);
  }

  /// Of a value with samples those of all replicas are the batch again; any other has one for each of them.
  void hand_out(ValueId& value) {
    if (of_replica_.contains(value) && !has_samples(value)) {
      value = stacked(value);
      return;
    }
    if (!has_samples(value)) return;
    const std::vector<DimId> dims = graph_.type(value).dims;
    gathered_.push_back({&value, stacked(value), dims});
  }

  /// Of a value that no replica makes, the zeros of a parameter that the loss does not need.
  ValueId for_each_replica(ValueId value) {
    GraphBuilder build(graph_);
    build.part = Part::update;
    build.span = graph_.node(graph_.value(value).producer).span;
    std::vector<DimId> dims = graph_.type(value).dims;
    const std::vector<DimId> replicas{parts_.turns};
    const ValueId copies = build.broadcast(value, replicas);
    dims.insert(dims.begin(), parts_.turns);
    return build.in_order(copies, dims);
  }

  ValueId mean(const Metric& metric) {
    GraphBuilder build(graph_);
    build.part = Part::update;
    build.span = metric.span;
    const Type type = graph_.type(metric.value).element;
    const ValueId all = build.cast(stacked(metric.value), type == Type::f64 ? Type::f64 : Type::f32);
    const std::vector<DimId> replicas{parts_.turns};
    const ValueId mean = build.multiply(build.reduce(Reduce::sum, all, replicas),
                                        1 / static_cast<double>(graph_.dim(parts_.turns).size));
    graph_.value(mean).name = metric.name;
    return mean;
  }

  Graph& graph_;
  const SampleParts parts_;
  NodeId loop_;
  LoopOp op_ = {};
  std::map<ValueId, ValueId> stacked_;  // of what a turn has its own of: [replica, ...]
  std::map<ValueId, ValueId> turn_of_;  // of parameters and inputs
  std::set<ValueId> of_replica_;        // root values made in the loop
  std::vector<GatheredValue> gathered_;
};

}  // namespace

SampleParts parts_of_replicas(Graph& graph, int64_t count, int64_t cut, Span span) {
  return declare_parts(graph, {graph.sample_dim, {}, {}, span, true}, count, cut, {"replica", "replica_"});
}

void declare_replicas(Graph& graph, int64_t count, Span span) {
  graph.replicas = parts_of_replicas(graph, count, 1, span);
}

void run_by_replicas(Graph& graph, DiagnosticSink& sink) {
  const SampleParts& parts = graph.replicas;
  if (!samples_first(graph, parts, sink)) return;
  const int64_t count = graph.dim(parts.turns).size;
  const auto resize = [&](const auto& change) {
    change(graph.dim(parts.samples).size);
    for (const SampleParts::Name& name : parts.names) change(graph.dim(name.samples).size);
  };
  const auto those_of_all = [&] { resize([&](int64_t& size) { size *= count; }); };
  const auto those_of_one = [&] { resize([&](int64_t& size) { size /= count; }); };
  those_of_all();
  decompose(graph);  // what finds samples is made of their positions among all
  those_of_one();
  run_by_micro_batches(graph, sink);
  if (sink.has_errors()) return;
  those_of_all();
  ReplicaLoop(graph).run();
  verify_graph(graph, "run_by_replicas");
}

}  // namespace mesh
