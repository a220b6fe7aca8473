#include "codegen/program/evaluation_cut.h"

#include <algorithm>
#include <optional>
#include <set>

#include "codegen/gradient/sample_sums.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"

namespace mesh {

namespace {

class Cutter {
 public:
  Cutter(const ShardedGraph& sharded, const Lowering& lowering)
      : sharded_(sharded), graph_(sharded.graph), lowering_(lowering) {
    if (graph_.sample_dim) names_ = names_of_samples(graph_, sample_dims(graph_).back());
    const SampleParts& parts = graph_.micro_batches.turns ? graph_.micro_batches : graph_.replicas;
    for (const SampleParts::Name& name : parts.names)
      if (!has(names_, name.part)) chunks_.push_back(name.part);
    cut_.batch.resize(graph_.nodes.size());
    cut_.finish.resize(graph_.nodes.size());
  }

  EvaluationCut run() {
    for (const Metric& metric : graph_.metrics) {
      Reach reach{std::vector<bool>(graph_.nodes.size()), {}, true};
      visit(metric.value, reach);
      cut_.averaged.push_back(!reach.separable || reads_another_reduction(reach));
      if (cut_.averaged.back()) spread(metric.value, cut_.batch);
      else take(reach);
    }
    return std::move(cut_);
  }

 private:
  /// What a metric reads: nodes up to the reductions over samples, and these.
  struct Reach {
    std::vector<bool> nodes;
    std::vector<EvaluationCut::Carried> carried;
    bool separable;  // nothing of a sample is read but through these reductions
  };

  const Node& producer(ValueId value) const { return graph_.node(graph_.value(value).producer); }

  /// What a value is a moved copy of.
  ValueId origin(ValueId value) const {
    while (std::holds_alternative<ReshardOp>(producer(value).op)) value = producer(value).inputs[0];
    return value;
  }

  /// How a node reduces over one of the dims, where that is all it does with it.
  std::optional<Reduce> reduction_over(const Node& node, const std::vector<DimId>& dims) const {
    const auto reduction = definition(node.op).reduction;
    if (!reduction) return {};
    const Reduction found = reduction(graph_, node);
    const bool over = std::ranges::any_of(found.dims, [&](DimId dim) { return has(dims, dim); });
    return over ? std::optional(found.reduce) : std::nullopt;
  }

  /// How a value combines over batches, if it is a reduction over samples.
  std::optional<Reduce> reduction_over_samples(ValueId value) const {
    const Node& node = producer(value);
    if (!graph_.sample_dim || node.body != graph_.root()) return {};
    if (const auto* loop = std::get_if<LoopOp>(&node.op))
      return takes_parts(graph_, *loop) ? carried_over(*loop, value) : std::nullopt;
    return reduction_over(node, names_);
  }

  /// How micro-batches combine in what their loop gives, or that in one over replicas. A sum that was made within a
  /// loop of theirs has been divided by its count there already: that is of one batch, and adds up no further. Nor does
  /// a sum over chunks: a rest of the set has others.
  std::optional<Reduce> carried_over(const LoopOp& loop, ValueId value) const {
    for (const auto& carry : loop.carries)
      if (carry.result == value) {
        const ValueId leaving = origin(carry.leaving);
        if (const LoopOp* inner = loop_of_parts(leaving, loop.body)) return carried_over(*inner, leaving);
        for (const ValueId input : producer(leaving).inputs)
          if (const LoopOp* inner = loop_of_parts(origin(input), loop.body)) return carried_over(*inner, origin(input));
        std::set<ValueId> seen{carry.entering};
        if (is_of_one_batch(carry.leaving, loop.body, seen)) return {};
        return combining(producer(leaving).op);
      }
    return {};
  }

  /// The loop over micro-batches in the turns of replicas that gives `value`, which may be added to what entered.
  const LoopOp* loop_of_parts(ValueId value, BodyId turns) const {
    const Node& node = producer(value);
    const auto* loop = std::get_if<LoopOp>(&node.op);
    return loop != nullptr && node.body == turns && takes_parts(graph_, *loop) ? loop : nullptr;
  }

  /// Whether `value`, of the turns of `turns`, reads a sum over samples that was made in a loop within these, or one
  /// over chunks.
  bool is_of_one_batch(ValueId value, BodyId turns, std::set<ValueId>& seen) const {
    if (graph_.value(value).body == graph_.root() || !seen.insert(value).second) return false;
    const auto reads = [&](ValueId read) { return is_of_one_batch(read, turns, seen); };
    const Node& node = producer(value);
    if ((node.body != turns && reduction_over(node, names_)) || reduction_over(node, chunks_)) return true;
    return std::ranges::any_of(sources_of(graph_, value), reads);
  }

  void visit(ValueId value, Reach& reach) const {
    const NodeId id = graph_.value(value).producer;
    const Node& node = graph_.node(id);
    // What is moved is carried when it has arrived: it is complete then. Margins are fetched of what was carried.
    const bool has_margins = sharded_.placement(value).has_margins();
    if (const auto reduce = reduction_over_samples(origin(value)); reduce && !has_margins) {
      const auto same = [&](const EvaluationCut::Carried& one) { return one.value == value; };
      if (std::none_of(reach.carried.begin(), reach.carried.end(), same)) reach.carried.push_back({value, *reduce});
      return;
    }
    if (reach.nodes[id.index]) return;
    reach.nodes[id.index] = true;
    const auto of_samples = [&](DimId dim) {
      return dim && (dim == graph_.sample_dim || dim == graph_.micro_batches.part || dim == graph_.replicas.part);
    };
    if (std::holds_alternative<ReadOp>(node.op) && std::ranges::any_of(graph_.type(value).dims, of_samples))
      reach.separable = false;
    for (ValueId input : outer_inputs(id)) visit(input, reach);
  }

  void spread(ValueId value, std::vector<bool>& nodes) const {
    const NodeId id = graph_.value(value).producer;
    if (nodes[id.index]) return;
    nodes[id.index] = true;
    for (ValueId input : outer_inputs(id)) spread(input, nodes);
  }

  /// Whether one of the reductions was made with another one, as it was for its batch alone: a variance, with a mean.
  bool reads_another_reduction(const Reach& reach) const {
    return std::any_of(reach.carried.begin(), reach.carried.end(), [&](const EvaluationCut::Carried& one) {
      std::set<ValueId> read;
      for (ValueId input : read_for(origin(one.value))) collect_read(input, read);
      return std::any_of(read.begin(), read.end(),
                         [&](ValueId other) { return reduction_over_samples(other) && !lowering_.constant(other); });
    });
  }

  /// By value: one sum that a loop over micro-batches carries does not read the others.
  void collect_read(ValueId value, std::set<ValueId>& read) const {
    if (!read.insert(value).second) return;
    for (ValueId input : read_for(value)) collect_read(input, read);
  }

  /// What a value of the root is made of there: of a loop's results each by itself.
  std::set<ValueId> read_for(ValueId value) const {
    std::set<ValueId> found, seen;
    add_reads(value, found, seen);
    return found;
  }
  void add_reads(ValueId value, std::set<ValueId>& found, std::set<ValueId>& seen) const {
    if (!seen.insert(value).second) return;
    const auto read = [&](ValueId one) {
      if (graph_.value(one).body == graph_.root()) found.insert(one);
      else add_reads(one, found, seen);
    };
    std::ranges::for_each(sources_of(graph_, value), read);
  }

  void take(const Reach& reach) {
    for (size_t i = 0; i < reach.nodes.size(); ++i)
      if (reach.nodes[i]) cut_.finish[i] = true;
    for (const EvaluationCut::Carried& one : reach.carried) {
      spread(one.value, cut_.batch);
      const auto same = [&](const EvaluationCut::Carried& other) { return other.value == one.value; };
      if (std::none_of(cut_.carried.begin(), cut_.carried.end(), same)) cut_.carried.push_back(one);
    }
  }

  /// What a root node reads, of a loop with everything that its body reads from outside.
  std::vector<ValueId> outer_inputs(NodeId id) const {
    std::vector<ValueId> values = graph_.node(id).inputs;
    if (const auto* loop = std::get_if<LoopOp>(&graph_.node(id).op)) collect_outer(loop->body, values);
    return values;
  }
  void collect_outer(BodyId body, std::vector<ValueId>& values) const {
    for (NodeId id : graph_.body(body).nodes) {
      for (ValueId input : graph_.node(id).inputs)
        if (graph_.value(input).body == graph_.root()) values.push_back(input);
      if (const auto* loop = std::get_if<LoopOp>(&graph_.node(id).op)) collect_outer(loop->body, values);
    }
  }

  const ShardedGraph& sharded_;
  const Graph& graph_;
  const Lowering& lowering_;
  std::vector<DimId> names_, chunks_;  // of single samples in a row, and of chunks of a micro-batch
  EvaluationCut cut_;
};

}  // namespace

EvaluationCut cut_evaluation(const ShardedGraph& sharded, const Lowering& lowering) {
  return Cutter(sharded, lowering).run();
}

}  // namespace mesh
