#include "codegen/layout/resolve_own.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/graph/rewrite.h"
#include "codegen/layout/cut.h"
#include "frontend/suggest.h"

namespace mesh {
namespace {

class OwnStages {
 public:
  OwnStages(const Graph& graph, Pipeline& made, DiagnosticSink& sink) : graph_(graph), made_(made), sink_(sink) {
    for (const NodeId id : nodes()) look(id);
  }

  bool resolve(const ast::Expr& value) {
    const auto* group = ast::as<ast::Group>(value);
    if (!group) return one(value);
    bool good = true;
    for (const ast::ExprPtr& name : group->values) good = one(*name) && good;
    return good;
  }

 private:
  const std::vector<NodeId>& nodes() const { return graph_.body(graph_.root()).nodes; }

  /// How many of the pipeline's loops a node stands behind.
  void look(NodeId id) {
    const Node& node = graph_.node(id);
    size_t& behind = behind_[id];
    for_each_source(graph_, node, [&](ValueId source) {
      const NodeId producer = graph_.value(source).producer;
      const auto known = behind_.find(producer);
      if (known != behind_.end()) behind = std::max(behind, known->second + (is_layers(producer) ? 1 : 0));
    });
  }

  bool is_layers(NodeId id) const {
    const auto* loop = std::get_if<LoopOp>(&graph_.node(id).op);
    return loop && made_.loop_over(loop->dim);
  }

  /// Whether the node makes something that has the path, or lies under it, or reads a parameter that does.
  bool is_meant(const Node& node, const std::string& path) const {
    const auto called = [&](const std::string& name) { return lies_under(name, path); };
    const auto lies = [&](ValueId id) { return graph_.value(id).any_name(called); };
    const auto is_stored = [&](ValueId value) {
      return std::holds_alternative<ReadOp>(graph_.node(graph_.value(value).producer).op) && lies(value);
    };
    return lies_under(node.scope, path) || std::ranges::any_of(node.results, lies) ||
           std::ranges::any_of(node.inputs, is_stored);
  }

  bool one(const ast::Expr& value) {
    const auto* written = ast::as<ast::Path>(value);
    if (!written) {
      sink_.error("E0411", value.span, "`own` names what has a stage to itself")
          .here("is no name")
          .help(
              "write names of values, blocks or parameters in front of the pipeline or behind it, as in `own: (wte, "
              "logits)`");
      return false;
    }
    const std::string path = written->text();
    std::set<size_t> gaps;
    for (const NodeId id : nodes()) {
      const Node& node = graph_.node(id);
      if (is_layers(id) || std::holds_alternative<ReadOp>(node.op) || !is_meant(node, path)) continue;
      gaps.insert(behind_[id]);
    }
    if (gaps.empty()) return is_of_turns(path, value.span) ? false : report_absent(path, value.span);
    if (gaps.contains(0)) made_.first_alone = true;
    if (gaps.contains(made_.loops.size())) made_.last_alone = true;
    if (gaps.contains(0) || gaps.contains(made_.loops.size())) return true;
    sink_.error("E0411", value.span, "`{}` stands between two loops of the pipeline", path)
        .here("is computed where the second begins")
        .help("what stands in front of all loops, or behind them, can have a stage to itself");
    return false;
  }

  /// E0411 for what lies in the loops.
  bool is_of_turns(const std::string& path, Span span) {
    const auto loop = std::ranges::find_if(
        made_.loops, [&](const PipelineLoop& one) { return lies_under(path, graph_.dim(one.dim).name); });
    if (loop == made_.loops.end()) return false;
    sink_.error("E0411", span, "`{}` is of the turns of `{}`", path, graph_.dim(loop->dim).name)
        .here("lies at the stages that have them")
        .help("`cut` says how many each stage has; `own` names what stands in front of them or behind");
    return true;
  }

  bool report_absent(const std::string& path, Span span) {
    std::vector<std::string> names;
    for (const NodeId id : nodes()) {
      const Node& node = graph_.node(id);
      if (is_layers(id) || std::holds_alternative<ReadOp>(node.op)) continue;
      if (!node.scope.empty()) names.push_back(node.scope);
      for (const ValueId result : node.results)
        if (!graph_.value(result).name.empty()) names.push_back(graph_.value(result).name);
      for (const ValueId input : node.inputs)
        if (std::holds_alternative<ReadOp>(graph_.node(graph_.value(input).producer).op))
          names.push_back(graph_.value(input).name);
    }
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    auto report = sink_.error("E0411", span, "nothing in front of {} or behind is called `{}`",
                              names_of_loops(graph_, made_), path);
    if (const auto near = did_you_mean(path, names)) report.here("did you mean `{}`?", *near).fix(span, *near);
    else report.note("what stands there: " + some_of(names));
    return false;
  }

  const Graph& graph_;
  Pipeline& made_;
  DiagnosticSink& sink_;
  std::map<NodeId, size_t> behind_;
};

}  // namespace

bool resolve_own(const ast::Attribute& own, const Graph& graph, Pipeline& made, DiagnosticSink& sink) {
  return OwnStages(graph, made, sink).resolve(*own.value);
}

}  // namespace mesh
