#include "codegen/layout/stage_movements.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/graph/print_graph.h"
#include "codegen/layout/cut.h"
#include "codegen/layout/stages.h"

namespace mesh {
namespace {

class StageMovements {
 public:
  StageMovements(const ShardedGraph& sharded, DiagnosticSink& sink)
      : sharded_(sharded), graph_(sharded.graph), pipeline_(sharded.layout.pipeline), sink_(sink) {}

  /// Whether nothing is wrong in the body, and in loops inside.
  bool check(BodyId body) {
    for (const NodeId id : graph_.body(body).nodes) {
      const Node& node = graph_.node(id);
      if (const auto* loop = std::get_if<LoopOp>(&node.op); loop && !check(loop->body)) return false;
      if (!is_sent_among_stages(node)) continue;
      report(node);
      return false;
    }
    return true;
  }

 private:
  bool is_sent_among_stages(const Node& node) const {
    const auto* moved = std::get_if<ReshardOp>(&node.op);
    if (!moved) return false;
    const ReshardStep& step = sharded_.steps[moved->step];
    return sends(step.kind) && contains(step.axes, pipeline_.axis);
  }

  /// In words of the spec.
  std::string called(ValueId value) const {
    const Value& of = graph_.value(value);
    const std::string& name = of.name.empty() ? of.label : of.name;
    if (!name.empty()) return "`" + name + "`";
    return "what `" + op_text(graph_, graph_.node(of.producer).op) + "` gives";
  }

  void report(const Node& node) {
    const ValueId value = node.inputs[0];
    const auto is_of_stages = [&](const Partial& partial) { return partial.axis == pipeline_.axis; };
    const bool terms = std::ranges::any_of(sharded_.placement(value).partial, is_of_stages);
    sink_
        .error("E0419", node.span, "{} would go among the stages of a pipeline, and is not what its loop carries",
               called(value))
        .here(terms ? "every stage makes a term of it, and its sum is needed for each micro-batch"
                    : "for each micro-batch a stage needs it that does not make it")
        .label(pipeline_.span, "the pipeline")
        .help(fmt::format("make another loop than that over {} the pipeline, or split the samples over `{}`",
                          names_of_loops(graph_, pipeline_), sharded_.layout.mesh.axes[pipeline_.axis].name));
  }

  const ShardedGraph& sharded_;
  const Graph& graph_;
  const Pipeline& pipeline_;
  DiagnosticSink& sink_;
};

}  // namespace

void check_stage_movements(const ShardedGraph& sharded, DiagnosticSink& sink) {
  if (const Stages stages(sharded.graph, sharded.layout); stages) StageMovements(sharded, sink).check(stages.body());
}

}  // namespace mesh
