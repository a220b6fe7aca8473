#include "codegen/layout/costly_reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "codegen/graph/print_graph.h"
#include "codegen/layout/cost.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

constexpr int64_t worth_telling = int64_t{64} << 10;

class Reporter {
 public:
  Reporter(const ShardedGraph& sharded, DiagnosticSink& sink)
      : sharded_(sharded), graph_(sharded.graph), mesh_(sharded.layout.mesh), sink_(sink) {}

  void report(const Movement& moved) {
    const std::vector<const ReshardStep*> steps = steps_of(moved);
    int64_t bytes = 0;
    for (const ReshardStep* step : steps)
      if (step->kind != CollectiveKind::permute) bytes += step->bytes;
    if (bytes <= worth_telling) return;
    const ValueType& type = graph_.type(moved.from);
    const Placement &from = sharded_.placement(moved.from), &to = sharded_.placement(moved.to);
    const int64_t least = least_bytes(graph_, mesh_, type, from, to);
    if (bytes <= 2 * least) return;
    const Span made = graph_.node(graph_.value(moved.from).producer).span;
    const bool by_rule = moved.user && moved.user == graph_.value(moved.from).producer;
    const Span needed = moved.user ? graph_.node(moved.user).span : made;
    sink_
        .lint("costly_reshard", needed, "{} is moved with {} a rank, where {} would do", value_name(graph_, moved.from),
              meshrt::bytes_text(bytes), meshrt::bytes_text(least))
        .here("{} it as {}", by_rule ? "a rule wants" : "needs", to_string(graph_, mesh_, type, to))
        .label(by_rule ? Span{} : made, "lies as " + to_string(graph_, mesh_, type, from))
        .note(way(steps))
        .help(cure(moved, by_rule ? to : from, by_rule ? from : to));
  }

 private:
  std::vector<const ReshardStep*> steps_of(const Movement& moved) const {
    std::vector<const ReshardStep*> steps;
    for (ValueId at = moved.to; at != moved.from;) {
      const Node& node = graph_.node(graph_.value(at).producer);
      steps.push_back(&sharded_.steps[std::get<ReshardOp>(node.op).step]);
      at = node.inputs[0];
    }
    std::ranges::reverse(steps);
    return steps;
  }

  std::string way(const std::vector<const ReshardStep*>& steps) const {
    std::string text;
    for (const ReshardStep* step : steps)
      text += fmt::format("{}{} over `{}`", text.empty() ? "" : ", then ", name_of(step->kind),
                          axes_text(mesh_, step->axes));
    return text;
  }

  /// The rule under which the value lies as `wanted` from the start.
  std::string cure(const Movement& moved, const Placement& now, const Placement& wanted) const {
    const std::vector<DimId>& dims = graph_.type(moved.from).dims;
    std::string rules;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (now.dims[i].axes == wanted.dims[i].axes) continue;
      const std::string axes = axes_text(mesh_, wanted.dims[i].axes);
      rules +=
          fmt::format("{}{} -> {}", rules.empty() ? "" : "; ", graph_.dim(dims[i]).name, axes.empty() ? "none" : axes);
    }
    const std::string& name = graph_.value(moved.from).name;
    return name.empty() ? fmt::format("give it a name, and let it lie so in the layout: `tensor NAME {{ {} }}`", rules)
                        : fmt::format("let it lie so in the layout: `tensor {} {{ {} }}`", name, rules);
  }

  const ShardedGraph& sharded_;
  const Graph& graph_;
  const MeshShape& mesh_;
  DiagnosticSink& sink_;
};

}  // namespace

int64_t least_bytes(const Graph& graph, const MeshShape& mesh, const ValueType& type, const Placement& from,
                    const Placement& to) {
  int64_t members = 1, copies = mesh.ranks();  // of a sum that is completed; ranks that hold the same of `from`
  for (const Partial& partial : from.partial) {
    copies /= mesh.axes[partial.axis].size;
    if (std::ranges::find(to.partial, partial) == to.partial.end()) members *= mesh.axes[partial.axis].size;
  }
  for (const DimPlacement& dim : from.dims) copies /= mesh.size(dim.axes);
  int64_t most = 0;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    int64_t needed = 1, held = members == 1 ? 1 : 0;  // of what is not complete nothing is held
    for (size_t i = 0; i < type.dims.size(); ++i) {
      const int64_t size = graph.dim(type.dims[i]).size;
      const Range before = owned_block(mesh, size, from.dims[i], rank),
                  after = owned_block(mesh, size, to.dims[i], rank);
      needed *= after.size();
      held *= std::max<int64_t>(0, std::min(before.end, after.end) - std::max(before.begin, after.begin));
    }
    most = std::max(most, needed - held);
  }
  const int64_t given = (members - 1) * local_elements(graph, mesh, type, from) / (members * copies);
  return std::max(most, given) * static_cast<int64_t>(meshrt::size_of(type.element));
}

void report_costly_reshards(const ShardedGraph& sharded, DiagnosticSink& sink) {
  Reporter reporter(sharded, sink);
  for (const Movement& moved : sharded.movements) reporter.report(moved);
}

}  // namespace mesh
