#include "codegen/layout/resolve_replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "codegen/layout/placement.h"
#include "codegen/layout/resolve_attributes.h"
#include "frontend/suggest.h"

namespace mesh {
namespace {

constexpr const char* example = "`outer: sgd(lr: 0.7, momentum: 0.9, nesterov: true)`";

class ReplicaRule {
 public:
  ReplicaRule(const ast::Place& place, Span rule, const Graph& graph, Layout& layout, DiagnosticSink& sink)
      : place_(place), rule_(rule), graph_(graph), layout_(layout), sink_(sink) {}

  void resolve(const std::vector<AxisId>& axes) {
    const ast::Attribute *sync = attribute_of(place_, "sync"), *outer = attribute_of(place_, "outer");
    if (!sync) {
      sink_.error("E0411", outer->span, "`outer` without `sync`")
          .here("the step that brings replicas together, after so many of their own")
          .help("say how many, as in `{ sync: 500, outer: sgd(lr: 0.7, momentum: 0.9, nesterov: true) }`");
      return;
    }
    if (layout_.replicas.rule.known()) {
      sink_.error("E0411", sync->span, "`sync` where the samples are those of replicas already")
          .label(layout_.replicas.span, "the first")
          .help("leave one of them out: ranks of the other rule make one replica together");
      return;
    }
    Replicas made;
    made.rule = rule_;
    made.span = sync->span;
    layout_.replicas = made;
    made.axes = axes;
    made.count = layout_.mesh.size(axes);
    if (!is_of_samples(*sync) || !has_steps(*sync, made) || (outer && !has_outer(*outer, made.outer)) ||
        !is_divided(made) || !made)
      return;
    sink_
        .lint("changes_numbers", sync->span, "the {} replicas train apart for {} step{}: this layout changes numbers",
              made.count, made.sync, made.sync == 1 ? "" : "s")
        .here("losses and parameters are not those of one rank, nor of another number of replicas")
        .note("`meshc verify` compares with one rank that trains the replicas one after the other")
        .help("`-A changes_numbers` says that this is meant");
    layout_.replicas = std::move(made);
  }

 private:
  bool is_of_samples(const ast::Attribute& sync) {
    if (!graph_.sample_dim) {
      sink_.error("E0411", sync.span, "the model has no samples that replicas could have among them")
          .note("it has no `minimize`, so its inputs have no dim of samples");
      return false;
    }
    const std::string& samples = graph_.dim(graph_.sample_dim).name;
    if (place_.dims.size() == 1 && place_.dims[0].text() == samples && !place_.target.none && place_.unless.empty())
      return true;
    sink_.error("E0411", sync.span, "`sync` of a rule that does not divide the samples alone")
        .here("each replica trains with its part of `{}`", samples)
        .help(fmt::format("write it with a rule of its own: `{} -> ... {{ sync: 500 }}`", samples));
    return false;
  }

  bool has_steps(const ast::Attribute& sync, Replicas& made) {
    const auto* number = ast::as<ast::Number>(*sync.value);
    constexpr double most = 1e15;  // far above any training
    if (number && number->integer() && number->value >= 1 && number->value <= most) {
      made.sync = static_cast<int64_t>(number->value);
      return true;
    }
    sink_.error("E0411", sync.value->span, "`sync` is the number of steps that replicas train apart")
        .here("must be a whole number from 1 to {:.0f}", most)
        .help("write `sync: 500`, or leave it out: gradients are then completed in every step");
    return false;
  }

  bool has_outer(const ast::Attribute& attribute, OuterStep& outer) {
    const auto* call = ast::as<ast::Call>(*attribute.value);
    if (!call || call->callee.text() != "sgd") {
      sink_
          .error("E0411", call ? call->callee.span : attribute.value->span, "{} is no optimizer over replicas",
                 call ? fmt::format("`{}`", call->callee.text()) : "this")
          .here("there is `sgd`, with or without momentum")
          .help(fmt::format("write {}", example));
      return false;
    }
    bool rate = false;
    for (const ast::Argument& argument : call->arguments) {
      if (!has_setting(argument, outer)) return false;
      rate = rate || argument.name->text == "lr";
    }
    if (rate) return true;
    sink_.error("E0411", attribute.value->span, "the optimizer over replicas needs a rate")
        .help(fmt::format("write {}; `lr: 1` alone gives the mean of the replicas", example));
    return false;
  }

  bool has_setting(const ast::Argument& argument, OuterStep& outer) {
    const std::string name = argument.name ? argument.name->text : "";
    const auto* number = ast::as<ast::Number>(*argument.value);
    const auto* truth = ast::as<ast::Bool>(*argument.value);
    if (name == "nesterov" && truth) outer.nesterov = truth->value;
    else if (name == "lr" && number && number->value > 0) outer.rate = number->value;
    else if (name == "momentum" && number && number->value < 1) outer.momentum = number->value;
    else return refuse(argument, name);
    return true;
  }

  bool refuse(const ast::Argument& argument, const std::string& name) {
    const std::vector<std::string> known{"lr", "momentum", "nesterov"};
    const bool is_known = std::ranges::find(known, name) != known.end();
    auto report = sink_.error("E0411", is_known ? argument.value->span : argument.span, "{}",
                              is_known ? fmt::format("`{}` of the optimizer over replicas", name)
                                       : "the optimizer over replicas has no such setting");
    if (name == "lr") report.here("must be a number above 0");
    else if (name == "momentum") report.here("must be a number from 0 and below 1");
    else if (name == "nesterov") report.here("must be `true` or `false`");
    else if (const auto near = did_you_mean(name, known)) report.here("did you mean `{}`?", *near);
    else report.here("known are lr, momentum, nesterov");
    report.help(fmt::format("write {}", example));
    return false;
  }

  bool is_divided(const Replicas& made) {
    const Dim& batch = graph_.dim(graph_.sample_dim);
    if (batch.size % made.count == 0 || graph_.generation) return true;  // what writes texts takes them as one batch
    sink_.error("E0412", rule_, "{} replicas do not divide `{}` = {}", made.count, batch.name, batch.size)
        .here("each replica trains with equally many samples")
        .label(batch.span, "the batch of one step, of all replicas")
        .help(fmt::format("a batch of {} would do", (batch.size / made.count + 1) * made.count));
    return false;
  }

  const ast::Place& place_;
  const Span rule_;
  const Graph& graph_;
  Layout& layout_;
  DiagnosticSink& sink_;
};

}  // namespace

void resolve_replicas(const ast::Place& place, Span rule, const Graph& graph, const std::vector<AxisId>& axes,
                      Layout& layout, DiagnosticSink& sink) {
  ReplicaRule(place, rule, graph, layout, sink).resolve(axes);
}

void check_replicas(const Graph& graph, const Layout& layout, DiagnosticSink& sink) {
  const Replicas& replicas = layout.replicas;
  if (!replicas) return;
  const std::string axes = axes_text(layout.mesh, replicas.axes);
  for (const Rule& rule : layout.rules) {
    if (rule.span == replicas.rule) {
      if (rule.deal)
        sink.error("E0426", rule.span, "`owns` of samples that replicas have among them").help("leave it out");
      continue;
    }
    if (std::ranges::none_of(rule.axes, [&](AxisId axis) { return contains(replicas.axes, axis); })) continue;
    sink.error("E0426", rule.span, "a dim is split over `{}`, whose coordinates are replicas", axes)
        .here("each replica holds all of its model")
        .label(replicas.span, "they train apart")
        .help("split it over another axis: the ranks that differ along that make one replica together");
  }
  for (const Node& node : graph.nodes) {
    const auto* update = std::get_if<UpdateOp>(&node.op);
    if (!update) continue;
    const Stored& stored = graph.stored[update->stored.index];
    sink.error("E0426", stored.span, "each replica would have another `{}`", stored.path)
        .here("a state that steps change")
        .label(replicas.span, "the replicas train apart")
        .help("replicas are of models without states that change; leave out `sync` to keep one");
  }
}

}  // namespace mesh
