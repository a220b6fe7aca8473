#include "codegen/layout/predict.h"

#include <algorithm>

#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/layout/cost.h"

namespace mesh {
namespace {

const char* phase_of(Part part) {
  return part == Part::forward ? "forward" : part == Part::update ? "update" : "backward";
}

class Predictor {
 public:
  Predictor(const ShardedGraph& sharded, const std::vector<uint32_t>& calls)
      : sharded_(sharded), calls_(calls), graph_(sharded.graph) {}

  Prediction run() {
    body(graph_.root(), 1);
    return std::move(result_);
  }

 private:
  void body(BodyId id, int64_t times) {
    for (NodeId n : graph_.body(id).nodes) {
      const Node& node = graph_.node(n);
      if (const LoopOp* loop = std::get_if<LoopOp>(&node.op)) body(loop->body, times * graph_.dim(loop->dim).size);
      else if (const ReshardOp* reshard = std::get_if<ReshardOp>(&node.op)) collective(node, reshard->step, times);
      else work(node, times);
    }
  }

  void collective(const Node& node, uint32_t index, int64_t times) {
    const ReshardStep& step = sharded_.steps[index];
    if (step.axes.empty()) return;  // margins of a whole dim: nobody else takes part
    const uint32_t call = index < calls_.size() ? calls_[index] : index;
    const double saved =
        call == index ? 0 : collective_seconds(sharded_.machine, sharded_.layout.mesh, step.axes, step.kind, 0);
    const double seconds = step.seconds - saved;
    const std::string& name = graph_.value(node.inputs[0]).name;
    const Node* producer = &graph_.node(graph_.value(node.inputs[0]).producer);
    while (std::holds_alternative<ReshardOp>(producer->op))
      producer = &graph_.node(graph_.value(producer->inputs[0]).producer);
    result_.collectives.push_back({step.kind, step.axes, sharded_.layout.mesh.size(step.axes),
                                   name.empty() ? op_text(graph_, producer->op) : name, step.bytes, times, seconds,
                                   phase_of(node.part), node.span, step.reason, step.rule, call});
    result_.communication_seconds += seconds * static_cast<double>(times);
  }

  /// The largest rank's share: the axes that split any operand or result split the work.
  void work(const Node& node, int64_t times) {
    const double flops = definition(node.op).flops(graph_, node);
    if (flops == 0) return;
    std::vector<AxisId> axes;
    double bytes = 0;
    const auto consider = [&](ValueId value) {
      const Placement& placement = sharded_.placement(value);
      for (const DimPlacement& dim : placement.dims)
        for (AxisId axis : dim.axes)
          if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
      bytes += static_cast<double>(local_elements(graph_, sharded_.layout.mesh, graph_.type(value), placement) *
                                   static_cast<int64_t>(meshrt::size_of(graph_.type(value).element)));
    };
    for (ValueId input : node.inputs) consider(input);
    for (ValueId output : node.results) consider(output);
    const double share = static_cast<double>(sharded_.layout.mesh.size(axes));
    // Elementwise work is fused with its neighbours: its operands are mostly in the cache.
    const bool product = std::holds_alternative<DotOp>(node.op) || std::holds_alternative<AttentionOp>(node.op) ||
                         std::holds_alternative<AttentionGradientOp>(node.op);
    result_.flops += flops * static_cast<double>(times);
    result_.compute_seconds +=
        static_cast<double>(times) *
        compute_seconds(sharded_.machine, graph_.type(node.inputs[0]).element, flops / share, product ? 0 : bytes / 3);
  }

  const ShardedGraph& sharded_;
  const std::vector<uint32_t>& calls_;
  const Graph& graph_;
  Prediction result_;
};

}  // namespace

Prediction predict(const ShardedGraph& sharded, const std::vector<uint32_t>& calls) {
  return Predictor(sharded, calls).run();
}

}  // namespace mesh
