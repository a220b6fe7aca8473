#include "codegen/layout/costly_reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "codegen/graph/print_graph.h"
#include "codegen/layout/declared.h"
#include "codegen/layout/least_bytes.h"
#include "meshrt/log.h"

namespace mesh {
namespace {

constexpr int64_t worth_telling = int64_t{64} << 10;

class Reporter {
 public:
  Reporter(const ShardedGraph& sharded, DiagnosticSink& sink)
      : sharded_(sharded),
        graph_(sharded.graph),
        mesh_(sharded.layout.mesh),
        declared_(sharded.graph, sharded.layout),
        sink_(sink) {
    for (const Node& node : graph_.nodes)
      if (node.part == Part::forward && !node.inputs.empty() && !std::holds_alternative<ReshardOp>(node.op))
        ++made_by_[{node.span.file, node.span.begin, node.span.end}];
  }

  void report(const Movement& moved) {
    const std::vector<const ReshardStep*> steps = steps_of(moved);
    int64_t bytes = 0;
    for (const ReshardStep* step : steps) {
      const int64_t sent = sent_in(*step, step->turns) / step->turns;
      // What one rank alone has, and all need, it sends to each of them: no rule changes that.
      if (step->kind == CollectiveKind::broadcast) bytes += sent / (mesh_.size(step->axes) - 1);
      else if (step->kind != CollectiveKind::halo && step->kind != CollectiveKind::ring) bytes += sent;
    }
    if (bytes <= worth_telling) return;
    const ValueType& type = graph_.type(moved.from);
    const Placement &from = sharded_.placement(moved.from), &to = sharded_.placement(moved.to);
    const int64_t least = least_bytes(graph_, mesh_, type, from, to);
    if (bytes <= 2 * least) return;
    const Span made = graph_.node(graph_.value(moved.from).producer).span;
    const bool by_rule = moved.user && moved.user == graph_.value(moved.from).producer;
    const Span needed = moved.user ? graph_.node(moved.user).span : made;
    auto lint = sink_.lint("costly_reshard", needed, "{} is moved with {} a rank, where {} would do", subject(moved),
                           meshrt::bytes_text(bytes), meshrt::bytes_text(least));
    lint.here("{} it as {}", by_rule ? "a rule wants" : "needs", to_string(graph_, mesh_, type, to))
        .label(by_rule ? Span{} : made, "lies as " + to_string(graph_, mesh_, type, from))
        .note(way(steps));
    if (const std::string help = cure(moved.from, by_rule ? to : from, by_rule ? from : to); !help.empty())
      lint.help(help);
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

  /// What is moved, in words of the spec: never a number of the compiler's.
  std::string subject(const Movement& moved) const {
    if (const Node* user = moved.user ? &graph_.node(moved.user) : nullptr)
      if (const UpdateOp* update = std::get_if<UpdateOp>(&user->op))
        return fmt::format("the new value of `{}`", graph_.stored[update->stored.index].path);
    const ValueId origin = origin_of(moved.from);
    if (const std::string* path = declared_.parameter_of_gradient(origin))
      return fmt::format("the gradient of `{}`", *path);
    const Value& value = graph_.value(origin);
    const Node& producer = graph_.node(value.producer);
    if (std::holds_alternative<ReadOp>(producer.op) || is_name_of_spec(value.name))
      return fmt::format("`{}`", value.name);
    const std::string& name = known_as(graph_, origin);
    if (name.starts_with("d_")) return fmt::format("the gradient of `{}`", name.substr(2));
    if (name.ends_with(".stash")) return fmt::format("`{}`, kept for backward,", name.substr(0, name.rfind('.')));
    if (std::holds_alternative<LoopOp>(producer.op)) return "a value of each turn of the loop";
    return fmt::format("the result of `{}`{}", op_text(graph_, producer.op),
                       producer.part == Part::forward  ? ""
                       : producer.part == Part::update ? " in the update" + updated_by(origin)
                                                       : " in backward");
  }

  /// " of `w`" for what the update of one parameter alone reads.
  std::string updated_by(ValueId value) const {
    std::set<ValueId> reached{value};
    std::set<std::string> paths;
    for (NodeId id : graph_.body(graph_.root()).nodes) {
      const Node& node = graph_.node(id);
      if (std::ranges::none_of(node.inputs, [&](ValueId input) { return reached.count(input) > 0; })) continue;
      reached.insert(node.results.begin(), node.results.end());
      const UpdateOp* update = std::get_if<UpdateOp>(&node.op);
      if (update == nullptr) continue;
      const Stored& stored = graph_.stored[update->stored.index];
      paths.insert(stored.parameter ? graph_.stored[stored.parameter.index].path : stored.path);
    }
    return paths.size() == 1 ? fmt::format(" of `{}`", *paths.begin()) : "";
  }

  /// Of what a value is a moved copy or a turn, as far as that can be told.
  ValueId origin_of(ValueId value) const {
    while (true) {
      if (declared_.parameter_of_gradient(value)) return value;
      const Node& producer = graph_.node(graph_.value(value).producer);
      ValueId before;
      if (std::holds_alternative<ReshardOp>(producer.op)) before = producer.inputs[0];
      else if (const LoopOp* loop = std::get_if<LoopOp>(&producer.op))
        for (const auto& slice : loop->slices)
          if (slice.turn == value) before = slice.stacked;
      if (!before) return value;
      value = before;
    }
  }

  /// Whether the spec has this name for a value that it computes.
  bool is_name_of_spec(const std::string& name) const { return !name.empty() && graph_.names.count(name) > 0; }

  /// Whether the layout may pin it: `tensor NAME { }`.
  bool may_be_pinned(const Value& value) const {
    if (const ReadOp* read = std::get_if<ReadOp>(&graph_.node(value.producer).op))
      return graph_.stored[read->stored.index].kind != StoredKind::optimizer;
    return is_name_of_spec(value.name);
  }

  /// The rule under which the value lies as `wanted` from the start. Nothing for a value that the spec has no word for,
  /// such as a gradient, unless a single expression makes it, which could be given a name.
  std::string cure(ValueId id, const Placement& now, const Placement& wanted) const {
    const std::vector<DimId>& dims = graph_.type(id).dims;
    std::string rules;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (now.dims[i] == wanted.dims[i]) continue;
      const std::string axes = axes_text(mesh_, wanted.dims[i].axes);
      rules += fmt::format("{}{} -> {}{}", rules.empty() ? "" : "; ", graph_.dim(dims[i]).name,
                           axes.empty() ? "none" : axes, owns_text(wanted.dims[i].deal));
    }
    const Value& value = graph_.value(id);
    const Node& producer = graph_.node(value.producer);
    if (rules.empty() || declared_.parameter_of_gradient(id) || producer.part != Part::forward) return {};
    if (may_be_pinned(value))
      return fmt::format("let it lie so in the layout: `tensor {} {{ {} }}`", value.name, rules);
    const Span& span = producer.span;
    const auto made = made_by_.find({span.file, span.begin, span.end});
    const bool expression = value.name.empty() && span.known() && made != made_by_.end() && made->second == 1 &&
                            !std::holds_alternative<LoopOp>(producer.op);
    return expression ? fmt::format("give it a name, and let it lie so in the layout: `tensor NAME {{ {} }}`", rules)
                      : "";
  }

  const ShardedGraph& sharded_;
  const Graph& graph_;
  const MeshShape& mesh_;
  const Declared declared_;
  DiagnosticSink& sink_;
  std::map<std::tuple<FileId, uint32_t, uint32_t>, int> made_by_;  // nodes of the forward graph by their expression
};

}  // namespace

void report_costly_reshards(const ShardedGraph& sharded, DiagnosticSink& sink) {
  Reporter reporter(sharded, sink);
  for (const Movement& moved : sharded.movements) reporter.report(moved);
}

}  // namespace mesh
