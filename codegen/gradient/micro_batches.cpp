#include "codegen/gradient/micro_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "codegen/gradient/behind_loops.h"
#include "codegen/gradient/micro_batch_dims.h"
#include "codegen/gradient/sample_sums.h"
#include "codegen/graph/clone.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/value_names.h"
#include "codegen/graph/verify_graph.h"
#include "codegen/rewrites/decompose.h"

namespace mesh {
namespace {

constexpr const char* alone = "compute it in a `repeat` of its own, without samples";

/// The attribute of a rule that says so.
const char* cut_by(const MicroBatches& parts) { return parts.by_replicas ? "sync" : "accumulate"; }

class Rewrite {
 public:
  Rewrite(Graph& graph, const MicroBatches& parts, const SampleSums& sums, DiagnosticSink& sink)
      : graph_(graph), parts_(parts), sums_(sums), sink_(sink) {}

  void run() {
    find_phases();
    if (!leaves_in_time()) return;
    report_coupled();
    const std::vector<NodeId> nodes = graph_.body(graph_.root()).nodes;
    graph_.body(graph_.root()).nodes.clear();
    for (int phase = 0; phase <= last_; ++phase) {
      keep_outside(nodes, phase);
      if (phase < last_) early_loop(phase);
      else main_loop(read_outside(nodes));
    }
    keep_outside(nodes, last_ + 1);
    replace_left();
    replace_sums();
    collect_wanted();
    connect_loop(graph_.node(loop_));
    name_micro_batches(graph_, parts_, whole_);
  }

 private:
  // ---- which loop everything belongs to: phase k is what is known before the loop of number k

  void find_phases() {
    // As if every sum were complete right after the first loop that can compute it.
    for (NodeId id : graph_.body(graph_.root()).nodes) {
      int phase = 0;
      for (ValueId value : sums_.reads(id)) phase = std::max(phase, phases_[value]);
      if (sums_.is_inside(id)) last_ = std::max(last_, phase);
      node_phase_[id] = phase;
      for (ValueId result : graph_.node(id).results)
        phases_[result] = phase + (sums_.adds_up(result) == SampleKind::whole ? 0 : 1);
    }
    // Sums that an inside node needs are early, all others wait for the main loop.
    std::vector<ValueId> work;
    for (NodeId id : sums_.inside())
      for (ValueId value : sums_.reads(id)) work.push_back(value);
    std::set<ValueId> seen;
    while (!work.empty()) {
      const ValueId value = work.back();
      work.pop_back();
      if (!seen.insert(value).second) continue;
      if (sums_.adds_up(value) != SampleKind::whole) early_.insert(value);
      const NodeId producer = graph_.value(value).producer;
      if (sums_.is_inside(producer) && sums_.adds_up(value) == SampleKind::whole) continue;
      for (ValueId read : sums_.reads(producer)) work.push_back(read);
    }
    for (NodeId id : graph_.body(graph_.root()).nodes) {
      int phase = 0;
      for (ValueId value : sums_.reads(id)) phase = std::max(phase, phases_[value]);
      if (!sums_.is_inside(id)) node_phase_[id] = phase;
      for (ValueId result : graph_.node(id).results) {
        // What every turn computes alike leaves the main loop with the last one.
        if (sums_.is_inside(id) && sums_.adds_up(result) == SampleKind::whole && !has_samples(result))
          phases_[result] = last_ + 1;
        else if (sums_.adds_up(result) == SampleKind::whole) phases_[result] = phase;
        else phases_[result] = early_.contains(result) ? node_phase_[id] + 1 : last_ + 1;
      }
    }
  }

  /// E0413 where a turn needs what is made of a value that leaves the loop with the last one; whether there is none.
  bool leaves_in_time() {
    for (NodeId id : sums_.inside())
      for (ValueId value : sums_.reads(id)) {
        const NodeId producer = graph_.value(value).producer;
        if (sums_.is_inside(producer) || node_phase_[producer] <= last_) continue;
        sink_
            .error("E0413", graph_.node(producer).span,
                   "this cannot be computed by micro-batches: it is made of a value without `{}` that a loop beside "
                   "values of samples gives, and they need it in turn",
                   graph_.dim(parts_.samples).name)
            .label(parts_.span, "cuts the batch")
            .help(alone);
        return false;
      }
    return true;
  }

  void report_coupled() {
    for (ValueId value : early_) {
      if (!sums_.is_trained(value)) continue;
      const Node& node = graph_.node(graph_.value(value).producer);
      sink_
          .lint("batch_coupled", node.span, "a sum over all samples of `{}` is needed to go on with each of them",
                graph_.dim(parts_.samples).name)
          .here("every micro-batch would be computed twice: for this sum, then with it")
          .label(parts_.span, "cuts the batch")
          .help(fmt::format("compute it of each micro-batch alone, leave out `{}`, or allow it: `-A batch_coupled`",
                            cut_by(parts_)));
    }
  }

  void keep_outside(const std::vector<NodeId>& nodes, int phase) {
    for (NodeId id : nodes)
      if (!sums_.is_inside(id) && node_phase_[id] == phase) graph_.body(graph_.root()).nodes.push_back(id);
  }

  // ---- the loops

  /// The loop under construction.
  struct Turns {
    NodeId node;
    BodyId body;
    LoopOp op;
    std::map<ValueId, ValueId> turn_of;  // input -> its micro-batch
  };

  Turns begin_loop() {
    Turns turns;
    turns.node = NodeId{static_cast<uint32_t>(graph_.nodes.size())};
    graph_.nodes.push_back({LoopOp{}, {}, {}, graph_.root(), Part::forward, parts_.span, {}});
    GraphBuilder build(graph_);
    turns.body = build.new_body(turns.node);
    turns.op.dim = parts_.time;
    turns.op.body = turns.body;
    return turns;
  }

  /// The part of an input that a turn sees.
  ValueId micro_batch(Turns& turns, ValueId input) {
    const auto [known, fresh] = turns.turn_of.try_emplace(input);
    if (fresh) {
      known->second = GraphBuilder(graph_).argument(graph_.type(input), turns.body, turns.node);
      turns.op.slices.push_back({input, known->second});
    }
    return known->second;
  }

  bool is_cut_input(ValueId value) const {
    return std::holds_alternative<ReadOp>(graph_.node(graph_.value(value).producer).op) && has_samples(value);
  }

  /// `sum` of a turn is added to what earlier turns left; `total` stands for it after the loop.
  ValueId add_up(Turns& turns, ValueId sum, SampleKind kind, Part part) {
    const ValueType type = graph_.type(sum);
    GraphBuilder outside(graph_);
    outside.span = graph_.node(graph_.value(sum).producer).span;
    outside.region = graph_.node(graph_.value(sum).producer).region;
    outside.part = part;
    const double infinity = std::numeric_limits<double>::infinity();
    const double neutral = kind == SampleKind::sum ? 0 : kind == SampleKind::max ? -infinity : infinity;
    const ValueId initial = outside.broadcast(outside.literal(neutral, type.element), type.dims);
    GraphBuilder inside = outside;
    inside.body = turns.body;
    const std::string name = graph_.value(sum).name;
    const ValueId entering = inside.argument(type, turns.body, turns.node);
    const MapFunction together = kind == SampleKind::sum   ? MapFunction::add
                                 : kind == SampleKind::max ? MapFunction::maximum
                                                           : MapFunction::minimum;
    const ValueId leaving = inside.map(together, {entering, sum});
    const ValueId total = outside.argument(type, graph_.root(), turns.node, name);
    turns.op.carries.push_back({initial, entering, leaving, total});
    return total;
  }

  void end_loop(const Turns& turns) {
    graph_.node(turns.node).op = turns.op;
    graph_.body(graph_.root()).nodes.push_back(turns.node);
    connect_loop(graph_.node(turns.node));
  }

  /// What leads to the sums of `phase` that later loops need, computed for them alone, before all regions.
  void early_loop(int phase) {
    const size_t first = graph_.nodes.size();
    Turns turns = begin_loop();
    std::map<NodeId, std::unique_ptr<Clone>> copies;
    GraphBuilder inside(graph_);
    inside.body = turns.body;
    const std::function<ValueId(ValueId)> here = [&](ValueId value) {
      if (is_cut_input(value)) return micro_batch(turns, value);
      const NodeId producer = graph_.value(value).producer;
      if (sums_.adds_up(value) != SampleKind::whole || !sums_.is_inside(producer)) return value;
      auto& copy = copies[producer];
      if (!copy) {
        copy = std::make_unique<Clone>(inside, producer, here);
        graph_.body(turns.body).nodes.push_back(copy->node());
      }
      return copy->result(value);
    };
    for (NodeId id : sums_.inside()) {
      const std::vector<ValueId> results = graph_.node(id).results;
      for (ValueId sum : results) {
        if (!early_.contains(sum) || node_phase_[id] != phase) continue;
        Clone copy(inside, id, here);
        graph_.body(turns.body).nodes.push_back(copy.node());
        totals_[sum] = add_up(turns, copy.result(sum), sums_.adds_up(sum), Part::forward);
      }
    }
    end_loop(turns);
    for (size_t i = first; i < graph_.nodes.size(); ++i) graph_.nodes[i].region = {};
  }

  /// What those of `nodes` that stay outside the loops read, and callers.
  std::set<ValueId> read_outside(const std::vector<NodeId>& nodes) {
    std::set<ValueId> read;
    for (NodeId id : nodes)
      if (!sums_.is_inside(id))
        for (ValueId value : sums_.reads(id)) read.insert(value);
    for_each_caller(graph_, [&](ValueId& value) { read.insert(value); });
    for (const auto& [name, value] : graph_.names)
      if (is_gradient_name(name)) read.insert(value);  // by the optimizer
    return read;
  }

  /// A value that is the same in every turn, to be read after the loop: what the last turn leaves.
  ValueId leave(Turns& turns, ValueId value) {
    const ValueType type = graph_.type(value);
    GraphBuilder outside(graph_);
    outside.span = graph_.node(graph_.value(value).producer).span;
    outside.part = graph_.node(graph_.value(value).producer).part;
    outside.region = graph_.node(graph_.value(value).producer).region;
    const ValueId initial = outside.broadcast(outside.literal(0, type.element), type.dims);
    graph_.value(initial).type.index_of = type.index_of;
    const ValueId entering = outside.argument(type, turns.body, turns.node);
    const ValueId result = outside.argument(type, graph_.root(), turns.node, graph_.value(value).name);
    turns.op.carries.push_back({initial, entering, value, result});
    return result;
  }

  void main_loop(const std::set<ValueId>& outside) {
    Turns turns = begin_loop();
    loop_ = turns.node;
    std::set<BodyId> bodies{turns.body};
    for (NodeId id : sums_.inside()) {
      Node& node = graph_.node(id);
      node.body = turns.body;
      for (ValueId result : node.results) graph_.value(result).body = turns.body;
      graph_.body(turns.body).nodes.push_back(id);
    }
    for (NodeId id : sums_.inside()) {
      const Part part = graph_.node(id).part;
      const std::vector<ValueId> results = graph_.node(id).results;
      for (ValueId result : results) {
        const SampleKind kind = sums_.adds_up(result);
        if (kind != SampleKind::whole && !early_.contains(result)) totals_[result] = add_up(turns, result, kind, part);
        else if (kind == SampleKind::whole && outside.contains(result) && !has_samples(result))
          left_[result] = leave(turns, result);
      }
    }
    std::vector<ValueId> inputs;
    for (const Stored& stored : graph_.stored)
      if (is_cut_input(stored.value)) inputs.push_back(stored.value);
    for (ValueId input : inputs) micro_batch(turns, input);
    replace_inside(turns);
    end_loop(turns);
  }

  /// Nodes of the main loop, at any depth, read micro-batches instead of inputs.
  void replace_inside(const Turns& turns) {
    const auto change = [&](ValueId& value) {
      if (const auto found = turns.turn_of.find(value); found != turns.turn_of.end()) value = found->second;
    };
    const auto walk = [&](const auto& self, BodyId body) -> void {
      for (NodeId id : graph_.body(body).nodes) {
        for_each_read(graph_.node(id), change);
        if (const LoopOp* loop = std::get_if<LoopOp>(&graph_.node(id).op)) self(self, loop->body);
      }
    };
    walk(walk, turns.body);
  }

  bool has_samples(ValueId value) const {
    return std::ranges::any_of(graph_.type(value).dims, [&](DimId dim) { return bool(micro_name(parts_, dim)); });
  }

  /// Outside the loops, what the last turn left stands for what every turn computes.
  void replace_left() {
    const auto change = [&](ValueId& value) {
      if (const auto found = left_.find(value); found != left_.end()) value = found->second;
    };
    const auto walk = [&](const auto& self, BodyId body) -> void {
      for (NodeId id : graph_.body(body).nodes) {
        Node& node = graph_.node(id);
        const LoopOp* loop = std::get_if<LoopOp>(&node.op);
        if (loop && loop->dim == parts_.time) continue;
        for_each_read(node, change);
        if (loop) self(self, loop->body);
      }
    };
    walk(walk, graph_.root());
    for_each_caller(graph_, change);
    for (auto& [name, value] : graph_.names)
      if (is_gradient_name(name)) change(value);
  }

  /// Whoever read a sum reads the total, but for the node that adds it up.
  void replace_sums() {
    const auto change = [&](ValueId& value) {
      if (const auto found = totals_.find(value); found != totals_.end()) value = found->second;
    };
    std::set<NodeId> adding;
    for (const Node& node : graph_.nodes)
      if (const LoopOp* loop = std::get_if<LoopOp>(&node.op); loop && loop->dim == parts_.time)
        for (const auto& carry : loop->carries) adding.insert(graph_.value(carry.leaving).producer);
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      if (adding.contains(NodeId{i})) continue;
      if (const LoopOp* loop = std::get_if<LoopOp>(&node.op); !loop || loop->dim != parts_.time)
        for_each_read(node, change);
      else
        for (ValueId& input : node.inputs) change(input);
    }
    for_each_caller(graph_, change);
    for (auto& [name, value] : graph_.names) change(value);
  }

  /// A wanted value or output of samples is gathered from all turns, and its two dims are one again.
  void collect_wanted() {
    LoopOp& loop = std::get<LoopOp>(graph_.node(loop_).op);
    GraphBuilder build(graph_);
    for_each_caller(graph_, [&](ValueId& wanted) {
      if (!has_samples(wanted)) return;
      ValueType type = graph_.type(wanted);
      const std::vector<DimId> dims = type.dims;
      ValueId stacked = wanted;  // an input is whole already
      if (graph_.value(wanted).body != graph_.root()) {
        type.dims.insert(type.dims.begin(), parts_.time);
        stacked = build.argument(type, graph_.root(), loop_, graph_.value(wanted).name);
        loop.collects.push_back({wanted, stacked});
      }
      whole_.push_back({&wanted, stacked, dims});
    });
  }

  Graph& graph_;
  const MicroBatches& parts_;
  const SampleSums& sums_;
  DiagnosticSink& sink_;
  int last_ = 0;
  NodeId loop_;  // the main one
  std::map<NodeId, int> node_phase_;
  std::map<ValueId, int> phases_;
  std::set<ValueId> early_;
  std::map<ValueId, ValueId> totals_;  // a sum of a turn -> of all of them
  std::map<ValueId, ValueId> left_;    // what is the same in every turn -> after the loop
  std::vector<GatheredValue> whole_;
};

}  // namespace

void declare_micro_batches(Graph& graph, int64_t count, Span span) {
  MicroBatches parts{graph.sample_dim, {}, {}, span};
  const Dim samples = graph.dim(parts.samples);
  GraphBuilder build(graph);
  parts.time = build.dim(fresh_dim_name(graph, "time"), count, span);
  parts.micro = build.dim(fresh_dim_name(graph, "micro_" + samples.name), samples.size / count, samples.span);
  for (const DimId name : names_of_samples(graph, parts.samples, count))
    if (name != parts.samples) {
      const Dim other = graph.dim(name);
      const std::string micro = fresh_dim_name(graph, "micro_" + other.name);
      parts.names.push_back({name, build.dim(micro, other.size / count, other.span)});
    }
  graph.micro_batches = parts;
}

void run_by_micro_batches(Graph& graph, DiagnosticSink& sink) {
  const MicroBatches parts = graph.micro_batches;
  if (!parts.time || !samples_first(graph, sink)) return;
  decompose(graph);
  std::vector<DimId> names{parts.samples};
  for (const MicroBatches::Name& name : parts.names) names.push_back(name.samples);
  std::optional<SampleSums> found(std::in_place, graph, names);
  if (found->coupled()) {
    complete_behind_loops(graph, names);
    found.emplace(graph, names);
  }
  const SampleSums& sums = *found;
  if (const auto& coupled = sums.coupled()) {
    const Node& node = graph.node(coupled->node);
    sink.error("E0413", node.span, "this cannot be computed by micro-batches: {}", coupled->why)
        .here("`{}`", op_text(graph, node.op))
        .label(parts.span, "cuts the batch")
        .help(coupled->beside          ? alone
              : !coupled->cure.empty() ? coupled->cure
                                       : fmt::format("leave out `{}`, or compute it of single samples", cut_by(parts)));
    return;
  }
  if (sums.inside().empty()) return;
  Rewrite(graph, parts, sums, sink).run();
  if (!sink.has_errors()) verify_graph(graph, "run_by_micro_batches");
}

}  // namespace mesh
