// check_stages.cpp: whether the stages of a pipeline can compute a model turn by turn.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/layout/cut.h"
#include "codegen/layout/stages.h"

namespace mesh {

namespace {

/// Whether a node outside of the divided loops has values of all turns, and does more with them than go over their
/// elements: a rank with several stages cannot do that stage by stage.
bool takes_turns_together(const Graph& graph, const Stages& stages, const Node& node,
                          const std::vector<PipelineLoop>& layers, DimId dim) {
  const auto has_turns = [&](ValueId value) { return has(graph.type(value).dims, dim); };
  const auto has_any = [&](ValueId value) {
    return std::ranges::any_of(layers, [&](const PipelineLoop& one) { return has(graph.type(value).dims, one.dim); });
  };
  if (std::ranges::none_of(node.inputs, has_turns) && std::ranges::none_of(node.results, has_turns)) return false;
  if (const auto* loop = std::get_if<LoopOp>(&node.op)) return !stages.is_divided(*loop);
  if (is_view(node.op))
    return !std::ranges::all_of(node.results, has_any);  // turns are still turns, or groups of these
  return !std::holds_alternative<MapOp>(node.op) && !std::holds_alternative<BroadcastOp>(node.op) &&
         !std::holds_alternative<RandomOp>(node.op);
}

/// What an op in a divided loop reads of turns that other stages may have.
struct OtherTurns {
  const Node* reader;
  DimId dim;
};

/// The first in a divided loop, or in loops inside of it: more than its turn of what stands outside, a value that has
/// all turns, or any turn of another divided loop.
std::optional<OtherTurns> reads_other_turns(const Graph& graph, const Stages& stages, const LoopOp& divided,
                                            BodyId body, std::set<ValueId>& made) {
  for (const NodeId id : graph.body(body).nodes) {
    const Node& node = graph.node(id);
    if (const auto* inner = std::get_if<LoopOp>(&node.op))
      if (const auto found = reads_other_turns(graph, stages, divided, inner->body, made)) return found;
    for (const ValueId input : node.inputs) {
      if (made.contains(input)) continue;
      if (!std::holds_alternative<LoopOp>(node.op) && has(graph.type(input).dims, divided.dim))
        return OtherTurns{&node, divided.dim};
      const BodyId from = graph.value(input).body;
      if (from != stages.body() && from != stages.around() && from != graph.root()) continue;
      if (const auto dim = stages.turns_of(input)) return OtherTurns{&node, *dim};
    }
    for (const ValueId result : node.results)
      if (has(graph.type(result).dims, divided.dim)) return OtherTurns{&node, divided.dim};
    made.insert(node.results.begin(), node.results.end());
  }
  return std::nullopt;
}

/// The dim of a loop as the spec has it, where the graph has one over groups of its turns.
const Dim& dim_of_turns(const Graph& graph, DimId dim) {
  const auto of = std::ranges::find(graph.grouped, dim, &GroupedTurns::groups);
  return graph.dim(of == graph.grouped.end() ? dim : of->turns);
}

/// A rename outside of the divided loops that makes turns of one of what had none.
struct MadeTurns {
  Span span;
  DimId from, to;
};
std::optional<MadeTurns> made_turns(const Graph& graph, const Stages& stages, const Pipeline& pipeline) {
  for (const NodeId id : graph.body(stages.body()).nodes) {
    const Node& node = graph.node(id);
    if (!is_rename(node.op)) continue;
    for (const Factor& factor : definition(node.op).factors(graph, node))
      if (const DimId from = factor.operands[0], to = factor.results[0];
          pipeline.loop_over(to) && !pipeline.loop_over(from))
        return MadeTurns{node.span, from, to};
  }
  return std::nullopt;
}

/// E0419 for the same. Whether there is none.
bool keeps_to_its_turns(const Graph& graph, const Stages& stages, const LoopOp& loop, const Layout& layout,
                        DiagnosticSink& sink) {
  std::set<ValueId> made;
  const std::optional<OtherTurns> found = reads_other_turns(graph, stages, loop, loop.body, made);
  if (!found) return true;
  const Dim &turns = dim_of_turns(graph, found->dim), &own = dim_of_turns(graph, loop.dim);
  auto report =
      sink.error("E0419", found->reader->span, "`{}` needs turns of `{}` that other stages of a pipeline have",
                 op_text(graph, found->reader->op), turns.name);
  report.here("of what is declared outside of `repeat {}` a stage has its own turns", turns.name)
      .label(layout.pipeline.span, "the pipeline");
  if (&turns == &own)
    report.help(fmt::format(
        "`x[{0} = position[{0}]]` is that of this turn; what all turns need has a dim of its own, `dim every = {1}`",
        turns.name, turns.size));
  else
    report.help(
        fmt::format("what `repeat {0}` carries goes on to `repeat {1}`: add up there what is needed of its turns, or "
                    "leave `{0}` out of the pipeline",
                    turns.name, own.name));
  return false;
}

}  // namespace

void check_stages(const Graph& graph, const Layout& layout, DiagnosticSink& sink) {
  if (!layout.pipeline) return;
  const Stages stages(graph, layout);
  const std::vector<PipelineLoop> layers = all_layers(graph, layout.pipeline);
  for (const NodeId id : stages ? graph.body(stages.body()).nodes : std::vector<NodeId>{}) {
    const Node& node = graph.node(id);
    const auto* loop = std::get_if<LoopOp>(&node.op);
    if (loop && layout.pipeline.loop_over(loop->dim) && !stages.is_divided(*loop)) {
      sink.error("E0419", node.span, "a second `repeat {}` in a pipeline over it", graph.dim(loop->dim).name)
          .label(layout.pipeline.span, "the pipeline")
          .help("write both loops as one, or give one of them a dim of its own");
      return;
    }
    if (loop && stages.is_divided(*loop) && !keeps_to_its_turns(graph, stages, *loop, layout, sink)) return;
    const auto together = std::ranges::find_if(layers, [&](const PipelineLoop& one) {
      return layout.pipeline.has_chunks() && takes_turns_together(graph, stages, node, layers, one.dim);
    });
    if (together != layers.end()) {
      const std::string& dim = graph.dim(together->dim).name;
      sink.error("E0901", node.span,
                 "`{}` of all turns of `{}` in a pipeline of several stages a rank is not built yet",
                 op_text(graph, node.op), dim)
          .here("outside of `repeat {}` its turns can only be gone over element by element", dim)
          .label(layout.pipeline.span, "the pipeline")
          .help(fmt::format("compute it inside `repeat {}`, or leave out `chunks`", dim));
      return;
    }
    if (stages.place(id).kind != StagePlace::Kind::several) continue;
    auto report =
        sink.error("E0419", node.span, "`{}` needs values of several stages of a pipeline", op_text(graph, node.op));
    report.here("for each micro-batch they would have to be sent past the stages between them")
        .label(layout.pipeline.span, "the pipeline");
    if (const auto made = made_turns(graph, stages, layout.pipeline))
      report.label(made->span, "makes turns of the pipeline")
          .help(fmt::format("leave out the rename, and read a turn as `x[{} = position[{}]]`",
                            graph.dim(made->from).name, graph.dim(made->to).name));
    else report.help("carry one of them through the loop: bind it before `repeat` and inside");
    return;
  }
}

}  // namespace mesh
