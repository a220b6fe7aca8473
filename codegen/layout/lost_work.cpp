#include "codegen/layout/lost_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/graph/op.h"
#include "codegen/graph/print_graph.h"
#include "codegen/layout/cost.h"
#include "codegen/layout/predict.h"
#include "codegen/layout/traffic.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

constexpr double worth_telling_seconds = 1e-3, worth_telling_share = 0.25;  // of a step
constexpr int64_t worth_telling_bytes = int64_t{64} << 10;

class LostWork {
 public:
  LostWork(const ShardedGraph& sharded, DiagnosticSink& sink)
      : sharded_(sharded), graph_(sharded.graph), mesh_(sharded.layout.mesh), sink_(sink) {}

  void run() {
    body(graph_.root(), 1);
    const Prediction step = predict(sharded_);
    const double seconds = step.compute_seconds + step.communication_seconds;
    for (const auto& [axis, repeated] : repeated_)
      if (repeated.seconds >= std::max(worth_telling_seconds, worth_telling_share * seconds))
        tell_repeated(axis, repeated, seconds);
    for (const Movement& moved : sharded_.movements) complete(moved);
    for (const auto& [sum, completions] : completions_) tell_completed(sum.first, completions);
  }

 private:
  // ---- work that is the same on all ranks of an axis

  struct Repeated {
    double seconds = 0, most = 0;
    NodeId node;  // of forward, whose repetition costs most
  };

  void body(BodyId id, int64_t turns) {
    for (const NodeId n : graph_.body(id).nodes) {
      const Node& node = graph_.node(n);
      if (const LoopOp* loop = std::get_if<LoopOp>(&node.op)) body(loop->body, turns * graph_.dim(loop->dim).size);
      else work(n, turns);
    }
  }

  /// The update repeats its work wherever parameters have copies: what the optimizer's rules are for.
  void work(NodeId id, int64_t turns) {
    const Node& node = graph_.node(id);
    const double flops = definition(node.op).flops(graph_, node);
    if (flops == 0 || node.inputs.empty() || node.part == Part::update) return;
    std::vector<AxisId> used, idle;
    for (AxisId axis = 0; axis != mesh_.axes.size(); ++axis) {
      const auto by = [&](ValueId value) { return sharded_.placement(value).uses(axis); };
      (std::ranges::any_of(node.inputs, by) || std::ranges::any_of(node.results, by) ? used : idle).push_back(axis);
    }
    const double seconds =
        static_cast<double>(turns) * compute_seconds(sharded_.machine, definition(node.op).effort(node.op),
                                                     type_of_work(graph_, node),
                                                     flops / static_cast<double>(mesh_.size(used)), 0);
    for (const AxisId axis : idle) {
      if (!is_meant_to_split(axis)) continue;
      Repeated& repeated = repeated_[axis];
      const double lost = seconds * (1 - 1 / static_cast<double>(mesh_.axes[axis].size));
      repeated.seconds += lost;
      if (node.part != Part::forward || lost <= repeated.most) continue;
      repeated.most = lost;
      repeated.node = id;
    }
  }

  /// Axes without a rule are told of by `idle_mesh_axis`.
  bool is_meant_to_split(AxisId axis) const {
    return mesh_.axes[axis].size > 1 && !contains(sharded_.layout.replicated, axis) &&
           std::ranges::any_of(sharded_.layout.rules, [&](const Rule& rule) { return contains(rule.axes, axis); });
  }

  void tell_repeated(AxisId axis, const Repeated& repeated, double step) {
    if (!repeated.node) return;
    const Node& node = graph_.node(repeated.node);
    const MeshAxis& over = mesh_.axes[axis];
    const ValueType& type = graph_.type(node.results[0]);
    const Placement& lies = sharded_.placement(node.results[0]);
    auto lint =
        sink_.lint("repeated_work", node.span, "all {} ranks of mesh axis `{}` do the same for {:.0f} % of the step",
                   over.size, over.name, 100 * repeated.seconds / step);
    lint.here("most of it here, computed as {}", to_string(graph_, mesh_, type, lies));
    if (const DimId dim = free_dim(type, lies, over.size))
      lint.help("split a dim over `{0}` by a rule that reaches it: `{1} -> {0}`", over.name, graph_.dim(dim).name);
  }

  /// The first dim that is whole and large enough for so many ranks.
  DimId free_dim(const ValueType& type, const Placement& lies, int64_t ranks) const {
    for (size_t i = 0; i < type.dims.size(); ++i)
      if (lies.dims[i].axes.empty() && graph_.dim(type.dims[i]).size >= ranks) return type.dims[i];
    return {};
  }

  // ---- sums that are completed part by part

  struct Completion {
    const Movement* moved;
    const ReshardStep* step;
  };

  void complete(const Movement& moved) {
    for (ValueId at = moved.to; at != moved.from;) {
      const Node& node = graph_.node(graph_.value(at).producer);
      const ReshardStep& step = sharded_.steps[std::get<ReshardOp>(node.op).step];
      at = node.inputs[0];
      if (step.kind == CollectiveKind::all_reduce || step.kind == CollectiveKind::reduce_scatter)
        completions_[{summed_up(at, step.axes[0]), step.axes}].push_back({&moved, &step});
    }
  }

  /// The partial sum that this one is a part of, or another look at.
  ValueId summed_up(ValueId value, AxisId axis) const {
    const auto is_partial = [&](ValueId of) {
      return std::ranges::any_of(sharded_.placement(of).partial, [&](const Partial& one) { return one.axis == axis; });
    };
    while (true) {
      const Node& node = graph_.node(graph_.value(value).producer);
      const bool cuts =
          std::holds_alternative<SliceOp>(node.op) || std::holds_alternative<ReshardOp>(node.op) || is_view(node.op);
      if (!cuts || !is_partial(node.inputs[0])) return value;
      value = node.inputs[0];
    }
  }

  void tell_completed(ValueId sum, const std::vector<Completion>& completions) {
    if (completions.size() < 2) return;
    int64_t bytes = 0;
    for (const Completion& one : completions) bytes += one.step->bytes;
    ReshardStep once;
    once.kind = CollectiveKind::all_reduce;
    once.axes = completions[0].step->axes;
    once.at = completions[0].step->at;
    Placement complete = sharded_.placement(sum);
    std::erase_if(complete.partial, [&](const Partial& one) { return contains(once.axes, one.axis); });
    const ValueType& type = graph_.type(sum);
    const int64_t would_do = sent_bytes(graph_, mesh_, type, sharded_.placement(sum), complete, once);
    if (bytes < would_do + worth_telling_bytes) return;
    const auto span = [&](const Completion& one) {
      return graph_.node(one.moved->user ? one.moved->user : graph_.value(one.moved->from).producer).span;
    };
    const Node& made = graph_.node(graph_.value(sum).producer);
    const std::string& name = known_as(graph_, sum);
    const std::string axes = axes_text(mesh_, once.axes);
    auto lint =
        sink_.lint("completed_twice", made.span, "parts of {} are added up over `{}` {} times, with {} a rank",
                   name.empty() ? fmt::format("the result of `{}`", op_text(graph_, made.op)) : "`" + name + "`", axes,
                   completions.size(), meshrt::bytes_text(bytes));
    lint.here("a partial sum, {} to add it up once", meshrt::bytes_text(would_do));
    lint.label(span(completions[0]), "here").label(span(completions[1]), "and here");
    const DimId dim = free_dim(type, complete, mesh_.size(once.axes));
    if (dim && made.part == Part::forward)
      lint.help("let it be completed where it is made: `tensor {} {{ {} -> {} }}`", name.empty() ? "NAME" : name,
                graph_.dim(dim).name, axes);
  }

  const ShardedGraph& sharded_;
  const Graph& graph_;
  const MeshShape& mesh_;
  DiagnosticSink& sink_;
  std::map<AxisId, Repeated> repeated_;
  std::map<std::pair<ValueId, std::vector<AxisId>>, std::vector<Completion>> completions_;
};

}  // namespace

void report_lost_work(const ShardedGraph& sharded, DiagnosticSink& sink) { LostWork(sharded, sink).run(); }

}  // namespace mesh
