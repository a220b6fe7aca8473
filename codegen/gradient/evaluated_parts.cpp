#include "codegen/gradient/evaluated_parts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "codegen/gradient/group_turns.h"
#include "codegen/gradient/micro_batches.h"
#include "codegen/gradient/replicas.h"
#include "codegen/gradient/sample_parts.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/draws.h"
#include "codegen/graph/op.h"
#include "codegen/graph/rewrite.h"
#include "codegen/graph/verify_graph.h"

namespace mesh {
namespace {

/// Makes of the loops over all parts of an evaluation ones over replicas, with one over the micro-batches of a replica
/// in it.
class NestedParts {
 public:
  explicit NestedParts(Graph& graph)
      : graph_(graph), replica_(graph.replicas.turns), time_(graph.micro_batches.turns) {}

  void run() {
    const Dim all = graph_.dim(time_);
    all_parts_ = GraphBuilder(graph_).fresh_dim("part", all.size, all.span);
    graph_.dim(time_).size /= graph_.dim(replica_).size;
    rename_turns();
    take_inputs_apart();
    nest_turns(graph_, all_parts_, replica_, time_);
    count_draws();
    const auto has_all = [&](const Value& value) { return has(value.type.dims, all_parts_); };
    if (std::ranges::none_of(graph_.values, has_all)) graph_.dims.pop_back();  // the last: nothing is called so
  }

 private:
  void rename_turns() {
    const auto rename = [&](DimId& dim) { dim = dim == time_ ? all_parts_ : dim; };
    for (Value& value : graph_.values) std::ranges::for_each(value.type.dims, rename);
    for (Node& node : graph_.nodes) for_each_dim(node.op, rename);
    for (Stored& stored : graph_.stored) std::ranges::for_each(stored.type.dims, rename);
  }

  /// [all parts, ...] as [replica, time, ...], which a step gives inputs too. Who reads one whole reads these as one
  /// dim.
  void take_inputs_apart() {
    for (uint32_t i = 0; i < graph_.stored.size(); ++i) {
      const ValueId input = graph_.stored[i].value;
      if (!has(graph_.type(input).dims, all_parts_)) continue;
      std::vector<NodeId> readers;
      for (const NodeId id : graph_.body(graph_.root()).nodes)
        if (!std::holds_alternative<LoopOp>(graph_.node(id).op) && has_input(id, input)) readers.push_back(id);
      take_apart(graph_.stored[i].type.dims);
      graph_.value(input).type.dims = graph_.stored[i].type.dims;
      if (readers.empty()) continue;
      GraphBuilder build = beside(graph_, graph_.node(readers.front()));
      const ValueId whole = build.value(MergeOp{{replica_, time_}, all_parts_}, {input});
      std::vector<NodeId>& nodes = graph_.body(graph_.root()).nodes;
      std::rotate(std::ranges::find(nodes, readers.front()), nodes.end() - 1, nodes.end());
      for (const NodeId id : readers) std::ranges::replace(graph_.node(id).inputs, input, whole);
    }
  }

  bool has_input(NodeId id, ValueId input) const { return std::ranges::count(graph_.node(id).inputs, input) > 0; }

  /// By replicas and their micro-batches. The turn is a draw's last input: nothing else is counted by turns.
  void count_draws() {
    for (Node& node : graph_.nodes) {
      RandomOp* draw = draw_of(node);
      if (draw == nullptr || !has(draw->counted, all_parts_)) continue;
      take_apart(draw->counted);
      node.inputs.back() = turn_around(graph_, node.body, replica_);
      node.inputs.push_back(turn_around(graph_, node.body, time_));
    }
  }

  void take_apart(std::vector<DimId>& dims) const {
    const auto at = std::ranges::find(dims, all_parts_);
    *at = time_;
    dims.insert(at, replica_);
  }

  Graph& graph_;
  const DimId replica_, time_;
  DimId all_parts_;
};

}  // namespace

void declare_evaluated_parts(Graph& graph, int64_t count, std::optional<int64_t> micro_batches, Span span) {
  SampleParts of_replicas = parts_of_replicas(graph, count, count, span);
  if (!micro_batches) {
    graph.micro_batches = std::move(of_replicas);
    return;
  }
  graph.replicas = std::move(of_replicas);
  declare_micro_batches(graph, count * *micro_batches, span);
  graph.micro_batches.by_replicas = true;
}

void evaluate_by_replicas(Graph& graph, DiagnosticSink& sink) {
  run_by_micro_batches(graph, sink);
  if (sink.has_errors()) return;
  if (graph.replicas.turns) NestedParts(graph).run();
  else graph.replicas = std::exchange(graph.micro_batches, {});
  verify_graph(graph, "evaluate_by_replicas");
}

}  // namespace mesh
