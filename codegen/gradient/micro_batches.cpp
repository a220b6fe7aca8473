#include "codegen/gradient/micro_batches.h"

#include <fmt/format.h>

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "codegen/gradient/behind_loops.h"
#include "codegen/gradient/sample_parts.h"
#include "codegen/gradient/sample_sums.h"
#include "codegen/gradient/sum_loops.h"
#include "codegen/graph/clone.h"
#include "codegen/graph/print_graph.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/value_names.h"
#include "codegen/graph/verify_graph.h"
#include "codegen/rewrites/decompose.h"

namespace mesh {
namespace {

constexpr const char* alone = "compute it in a `repeat` of its own, without samples";

/// The attributes of rules that say so.
std::string cut_by(const Graph& graph, const SampleParts& parts) {
  if (parts.by_replicas) return "`sync`";
  const std::string own = parts.by_stages ? "`microbatches`" : "`accumulate`";
  return graph.replicas.turns ? own + " and `sync`" : own;
}

/// Builds the step anew, node by node in the order in which they run now. A node that comes to its place is made to
/// read what stands there for the values that it read: inside a loop a micro-batch for an input, after a loop a total
/// for a sum.
class ByMicroBatches {
 public:
  ByMicroBatches(Graph& graph, const SampleParts& parts, const SampleSums& sums, DiagnosticSink& sink)
      : graph_(graph), parts_(parts), sums_(sums), loops_(graph, sums), sink_(sink) {}

  void run() {
    if (!leaves_in_time()) return;
    report_coupled();
    std::vector<NodeId> nodes;
    nodes.swap(graph_.body(graph_.root()).nodes);
    const std::set<ValueId> read_after = read_outside(nodes);
    for (int loop = 0; loop <= loops_.main_loop(); ++loop) {
      place_before(loop, nodes);
      if (loop < loops_.main_loop()) early_loop(loop);
      else main_loop(read_after);
    }
    place_before(loops_.main_loop() + 1, nodes);
    answer_callers();
    collect_wanted();
    connect_loop(graph_.node(loop_));
    name_parts(graph_, parts_, {}, whole_);
  }

 private:
  using View = std::function<ValueId(ValueId)>;

  /// E0413 where a turn needs what is made of a value that leaves the loop with the last one; whether there is none.
  bool leaves_in_time() {
    for (NodeId id : sums_.inside())
      for (ValueId value : sums_.reads(id)) {
        const NodeId producer = graph_.value(value).producer;
        if (sums_.is_inside(producer) || loops_.loop_of(producer) <= loops_.main_loop()) continue;
        sink_
            .error("E0413", graph_.node(producer).span,
                   "this cannot be computed by {}: it is made of a value without `{}` that a loop beside values of "
                   "samples gives, and they need it in turn",
                   parts_text(parts_), graph_.dim(parts_.samples).name)
            .label(parts_.span, "cuts the batch")
            .help(alone);
        return false;
      }
    return true;
  }

  void report_coupled() {
    for (ValueId value : loops_.early()) {
      if (!sums_.is_trained(value)) continue;
      const Node& node = graph_.node(graph_.value(value).producer);
      sink_
          .lint("batch_coupled", node.span, "a sum over all samples of `{}` is needed to go on with each of them",
                graph_.dim(parts_.samples).name)
          .here("{} would be computed twice: for this sum, then with it",
                !parts_.by_replicas     ? "every micro-batch"
                : graph_.replicas.turns ? "in evaluation every micro-batch of a replica"
                                        : "in evaluation each replica's part of the batch")
          .label(parts_.span, "cuts the batch")
          .help(fmt::format("{}leave out {}, or allow it: `-A batch_coupled`",
                            parts_.by_replicas ? "" : "compute it of each micro-batch alone, ",
                            cut_by(graph_, parts_)));
    }
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

  // ---- what stands for a value

  /// Outside the loops: of a sum its total, of what every turn computes alike what the last one left.
  ValueId outside(ValueId value) const {
    if (const auto total = totals_.find(value); total != totals_.end()) return total->second;
    const auto left = left_.find(value);
    return left == left_.end() ? value : left->second;
  }

  bool is_cut_input(ValueId value) const {
    return std::holds_alternative<ReadOp>(graph_.node(graph_.value(value).producer).op) &&
           has_samples(graph_, graph_.type(value));
  }

  /// A node and all that is in it read what `view` gives.
  void read(NodeId id, const View& view) {
    for_each_read(graph_.node(id), [&](ValueId& value) { value = view(value); });
    if (const LoopOp* loop = std::get_if<LoopOp>(&graph_.node(id).op))
      for (NodeId inner : graph_.body(loop->body).nodes) read(inner, view);
  }

  void place_before(int loop, const std::vector<NodeId>& nodes) {
    for (NodeId id : nodes) {
      if (sums_.is_inside(id) || loops_.loop_of(id) != loop) continue;
      read(id, [&](ValueId value) { return outside(value); });
      graph_.body(graph_.root()).nodes.push_back(id);
    }
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
    turns.op.dim = parts_.turns;
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

  /// Beside the loop, in the place of what made `value`.
  GraphBuilder beside_loop(ValueId value) {
    const Node& producer = graph_.node(graph_.value(value).producer);
    GraphBuilder build(graph_);
    build.span = producer.span;
    build.part = producer.part;
    build.region = producer.region;
    return build;
  }

  /// `sum` of a turn is added to what earlier turns left; what is given stands for all of them after the loop.
  ValueId add_up(Turns& turns, ValueId sum, SampleKind kind, Part part) {
    const ValueType type = graph_.type(sum);
    GraphBuilder outside = beside_loop(sum);
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
    for (const ValueId one : {initial, leaving}) graph_.value(one).type.index_of = type.index_of;
    const ValueId total = outside.argument(type, graph_.root(), turns.node, name);
    turns.op.carries.push_back({initial, entering, leaving, total});
    return total;
  }

  /// A value that is the same in every turn, to be read after the loop: what the last turn leaves.
  ValueId leave(Turns& turns, ValueId value) {
    const ValueType type = graph_.type(value);
    GraphBuilder outside = beside_loop(value);
    const ValueId initial = outside.broadcast(outside.literal(0, type.element), type.dims);
    graph_.value(initial).type.index_of = type.index_of;
    const ValueId entering = outside.argument(type, turns.body, turns.node);
    const ValueId result = outside.argument_called(graph_.value(value), type, graph_.root(), turns.node);
    turns.op.carries.push_back({initial, entering, value, result});
    return result;
  }

  void end_loop(const Turns& turns) {
    graph_.node(turns.node).op = turns.op;
    graph_.body(graph_.root()).nodes.push_back(turns.node);
    connect_loop(graph_.node(turns.node));
  }

  /// A loop of copies for its sums alone, with what leads to them, before all regions.
  void early_loop(int loop) {
    const size_t first = graph_.nodes.size();
    Turns turns = begin_loop();
    std::map<NodeId, std::unique_ptr<Clone>> copies;
    GraphBuilder inside(graph_);
    inside.body = turns.body;
    const View here = [&](ValueId value) {
      if (is_cut_input(value)) return micro_batch(turns, value);
      const NodeId producer = graph_.value(value).producer;
      if (sums_.adds_up(value) != SampleKind::whole || !sums_.is_inside(producer)) return outside(value);
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
        if (!loops_.early().contains(sum) || loops_.loop_of(id) != loop) continue;
        Clone copy(inside, id, here);
        graph_.body(turns.body).nodes.push_back(copy.node());
        totals_[sum] = add_up(turns, copy.result(sum), sums_.adds_up(sum), Part::forward);
      }
    }
    end_loop(turns);
    for (size_t i = first; i < graph_.nodes.size(); ++i) graph_.nodes[i].region = {};
  }

  /// All that is of samples, and `read_after` of what is not.
  void main_loop(const std::set<ValueId>& read_after) {
    Turns turns = begin_loop();
    loop_ = turns.node;
    for (const Stored& stored : graph_.stored)
      if (is_cut_input(stored.value)) micro_batch(turns, stored.value);
    for (NodeId id : sums_.inside()) {
      read(id, [&](ValueId value) { return is_cut_input(value) ? micro_batch(turns, value) : outside(value); });
      graph_.node(id).body = turns.body;
      for (ValueId result : graph_.node(id).results) graph_.value(result).body = turns.body;
      graph_.body(turns.body).nodes.push_back(id);
    }
    for (NodeId id : sums_.inside()) {
      const Part part = graph_.node(id).part;
      const std::vector<ValueId> results = graph_.node(id).results;
      for (ValueId result : results) {
        const SampleKind kind = sums_.adds_up(result);
        if (kind == SampleKind::whole) {
          if (read_after.contains(result) && !has_samples(graph_, graph_.type(result)))
            left_[result] = leave(turns, result);
        } else if (!loops_.early().contains(result)) {
          totals_[result] = add_up(turns, result, kind, part);
        }
      }
    }
    end_loop(turns);
  }

  // ---- what is seen of the step

  /// Callers and names mean totals by sums; by what every turn computes alike, only callers and gradients mean what the
  /// last turn left.
  void answer_callers() {
    const auto change = [&](ValueId& value) { value = outside(value); };
    for_each_caller(graph_, change);
    for (auto& [name, value] : graph_.names)
      if (is_gradient_name(name) || totals_.contains(value)) change(value);
  }

  /// A wanted value or output of samples is gathered from all turns, and its two dims are one again.
  void collect_wanted() {
    LoopOp& loop = std::get<LoopOp>(graph_.node(loop_).op);
    GraphBuilder build(graph_);
    for_each_caller(graph_, [&](ValueId& wanted) {
      if (!has_samples(graph_, graph_.type(wanted))) return;
      ValueType type = graph_.type(wanted);
      const std::vector<DimId> dims = type.dims;
      ValueId stacked = wanted;  // an input is whole already
      if (graph_.value(wanted).body != graph_.root()) {
        type.dims.insert(type.dims.begin(), parts_.turns);
        stacked = build.argument_called(graph_.value(wanted), type, graph_.root(), loop_);
        loop.collects.push_back({wanted, stacked});
      }
      whole_.push_back({&wanted, stacked, dims});
    });
  }

  Graph& graph_;
  const SampleParts& parts_;
  const SampleSums& sums_;
  const SumLoops loops_;
  DiagnosticSink& sink_;
  NodeId loop_;                        // the main one
  std::map<ValueId, ValueId> totals_;  // a sum of a turn -> of all of them
  std::map<ValueId, ValueId> left_;    // what is the same in every turn -> after the loop
  std::vector<GatheredValue> whole_;
};

}  // namespace

void declare_micro_batches(Graph& graph, int64_t count, Span span) {
  graph.micro_batches = declare_parts(graph, {graph.sample_dim, {}, {}, span}, count, count, {"time", "micro_"});
}

namespace {

/// What groups of turns compute again and nobody reads: sums over samples in it would couple them. What has a name may
/// still be asked for.
void remove_unnamed(Graph& graph) {
  std::vector<ValueId> named;
  for (const auto& [name, value] : graph.names) named.push_back(value);
  remove_dead(graph, named);
}

}  // namespace

void run_by_micro_batches(Graph& graph, DiagnosticSink& sink) {
  const SampleParts parts = graph.micro_batches;
  if (!parts.turns || !samples_first(graph, parts, sink)) return;
  decompose(graph);
  std::vector<DimId> names{parts.samples};
  for (const SampleParts::Name& name : parts.names) names.push_back(name.samples);
  std::optional<SampleSums> found(std::in_place, graph, names);
  if (found->coupled()) {
    remove_unnamed(graph);
    complete_behind_loops(graph, names);
    found.emplace(graph, names);
  }
  const SampleSums& sums = *found;
  if (const auto& coupled = sums.coupled()) {
    const Node& node = graph.node(coupled->node);
    auto report = sink.error("E0413", node.span, "this cannot be computed by {}: {}", parts_text(parts), coupled->why);
    if (!node.scope.empty()) report.note(fmt::format("in `{}`", node.scope));
    report.here("`{}`", op_text(graph, node.op))
        .label(parts.span, "cuts the batch")
        .help(coupled->beside ? alone
              : !coupled->cure.empty()
                  ? coupled->cure
                  : fmt::format("leave out {}, or compute it of single samples", cut_by(graph, parts)));
    return;
  }
  if (sums.inside().empty()) return;
  ByMicroBatches(graph, parts, sums, sink).run();
  if (!sink.has_errors()) verify_graph(graph, "run_by_micro_batches");
}

}  // namespace mesh
