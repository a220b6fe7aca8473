#include "codegen/layout/resolve_check.h"

#include <algorithm>
#include <set>

#include "codegen/graph/dims.h"
#include "codegen/graph/free_turns.h"
#include "codegen/graph/print_graph.h"
#include "codegen/layout/divided.h"
#include "codegen/layout/rules.h"
#include "codegen/layout/rules_apart.h"

namespace mesh {
namespace {

struct Subject {
  ValueKind kind;
  ValuePaths paths;
  ValueType type;
  Span span;
  std::string op = {};  // that gives a value without a name
  DimId loop = {};      // of a turn of a stacked parameter
};

/// Values that depend on something stored or carried by a loop; the others have no placement.
std::vector<bool> placed_values(const Graph& graph) {
  std::vector<bool> placed(graph.values.size());
  const auto keep = [&](ValueId value) {
    const bool fresh = !placed[value.index];
    placed[value.index] = true;
    return fresh;
  };
  const auto spread = [&](ValueId from, ValueId to) { return placed[from.index] && keep(to); };
  for (bool changed = true; changed;) {
    changed = false;
    for (const Node& node : graph.nodes) {
      if (std::holds_alternative<ReadOp>(node.op)) {
        for (ValueId result : node.results) changed |= keep(result);
      } else if (const LoopOp* loop = std::get_if<LoopOp>(&node.op)) {
        for (const auto& carry : loop->carries) changed |= keep(carry.entering) | keep(carry.result);
        for (const auto& slice : loop->slices) changed |= spread(slice.stacked, slice.turn);
        for (const auto& collect : loop->collects) changed |= spread(collect.turn, collect.stacked);
      } else {
        for (ValueId input : node.inputs)
          for (ValueId result : node.results) changed |= spread(input, result);
      }
    }
  }
  return placed;
}

/// What there is of a parameter: one that is frozen has no gradient and no moments.
std::vector<ValueKind> kinds_of(const Stored& parameter) {
  if (parameter.frozen) return {ValueKind::parameter};
  return {ValueKind::parameter, ValueKind::gradient, ValueKind::optimizer};
}

std::vector<Subject> subjects_of(const Graph& graph) {
  std::vector<Subject> all;
  auto others = other_names_of_stored(graph);
  for (const Stored& stored : graph.stored) {
    const ValuePaths paths{stored.path, others[stored.path]};
    switch (stored.kind) {
      case StoredKind::input: all.push_back({ValueKind::input, paths, stored.type, stored.span}); break;
      case StoredKind::state: all.push_back({ValueKind::state, paths, stored.type, stored.span}); break;
      case StoredKind::optimizer:
      case StoredKind::cache: break;
      case StoredKind::parameter:
        for (ValueKind kind : kinds_of(stored)) all.push_back({kind, paths, stored.type, stored.span});
    }
  }
  const std::vector<bool> placed = placed_values(graph);
  std::set<ValueId> listed;
  for (const auto& [name, id] : graph.names) {
    const Value& value = graph.value(id);
    const Node& node = graph.node(value.producer);
    if (!placed[id.index] || std::holds_alternative<ReadOp>(node.op) || !listed.insert(id).second) continue;
    const ValuePaths paths = value.name.empty() ? ValuePaths{name} : ValuePaths{value.name, value.other_names};
    all.push_back({ValueKind::activation, paths, value.type, node.span});
  }
  // An expression has a place whether or not it is given a name. After the named ones, which make clearer messages.
  for (const Node& node : graph.nodes)
    for (ValueId result : node.results) {
      const std::string& name = graph.value(result).name;
      if (listed.contains(result) || !placed[result.index] || !node.span.known() || graph.value(result).passing)
        continue;
      if (std::holds_alternative<ReadOp>(node.op) || std::holds_alternative<LoopOp>(node.op)) continue;
      all.push_back({name.empty() ? ValueKind::nameless : ValueKind::activation,
                     name.empty() ? ValuePaths{node.scope} : ValuePaths{name, graph.value(result).other_names},
                     graph.type(result), node.span, op_text(graph, node.op)});
    }
  for (const Output& output : graph.outputs)
    if (!output.stored && placed[output.value.index])
      all.push_back({ValueKind::output, paths_of_output(graph, output), graph.type(output.value), output.span});
  return all;
}

std::vector<Subject> turns_of_parameters(const Graph& graph) {
  std::vector<Subject> all;
  auto others = other_names_of_stored(graph);
  for (const Stored& stored : graph.stored) {
    if (stored.kind != StoredKind::parameter || stored.stacked == 0) continue;
    ValueType turn = stored.type;
    turn.dims.erase(turn.dims.begin(), turn.dims.begin() + static_cast<std::ptrdiff_t>(stored.stacked));
    for (ValueKind kind : kinds_of(stored))
      if (kind != ValueKind::optimizer)
        all.push_back({kind, {stored.path, others[stored.path]}, turn, stored.span, "", stored.type.dims.front()});
  }
  return all;
}

std::string called(const Subject& subject) {
  if (subject.kind == ValueKind::gradient) return "the gradient of `" + subject.paths.path + "`";
  if (subject.kind == ValueKind::optimizer) return "the optimizer state of `" + subject.paths.path + "`";
  if (!subject.op.empty()) return "the result of `" + subject.op + "`";
  return "`" + subject.paths.path + "`";
}

class Checker {
 public:
  Checker(const Graph& graph, const Layout& layout, DiagnosticSink& sink)
      : graph_(graph), layout_(layout), sink_(sink) {}

  void run() {
    if (layout_.pipeline &&
        std::ranges::count_if(layout_.rules, [&](const Rule& rule) { return !leaves_stages(rule); }))
      return;
    if (layout_.pipeline && !gradients_stay_at_stages()) return;
    for (const Subject& subject : subjects_of(graph_)) check(subject);
    // A turn of a stacked parameter is one too, without the loop's dim.
    for (const Subject& turn : turns_of_parameters(graph_)) check_ranks(turn);
    for (const Node& node : graph_.nodes) check_turns(node);
    check_effects();
    check_axes();
    for (const Rule& rule : layout_.rules) check_parts(rule);
  }

 private:
  /// A stage alone has its turns and computes them: no other rule may place these, or split what it computes over the
  /// ranks of other stages. Gradients are completed and moments updated behind the pipeline, by all ranks.
  bool leaves_stages(const Rule& rule) {
    const Pipeline& pipeline = layout_.pipeline;
    if (rule.span == pipeline.span || rule.scope == RuleScope::optimizer) return true;
    const std::string& axis = layout_.mesh.axes[pipeline.axis].name;
    const auto layers = std::ranges::find_if(rule.dims, [&](DimId dim) { return pipeline.loop_over(dim).has_value(); });
    if (layers != rule.dims.end()) {
      const std::string& turns = graph_.dim(*layers).name;
      sink_.error("E0424", rule.span, "another rule for `{}`, whose turns are the stages of a pipeline", turns)
          .here("what belongs to a turn lies at its stage")
          .label(pipeline.span, "the pipeline")
          .help(fmt::format("leave it out; moments may lie elsewhere, `optimizer {{ {} -> ... }}`", turns));
      return false;
    }
    if (!contains(rule.axes, pipeline.axis) || rule.scope == RuleScope::grads) return true;
    sink_
        .error("E0424", rule.span, "`{}` is split over `{}`, along which the stages of a pipeline lie",
               dims_text(graph_, rule.dims, " * "), axis)
        .here("each stage computes its part of the model alone")
        .label(pipeline.span, "the pipeline")
        .help("split it over another axis" + instead_of_moments(rule, axis));
    return false;
  }

  /// The gradients of what a turn of the pipeline's loop reads are computed at its stage, too.
  bool gradients_stay_at_stages() {
    const Pipeline& pipeline = layout_.pipeline;
    std::set<const Rule*> wrong;
    for (const Subject& turn : turns_of_parameters(graph_)) {
      if (turn.kind != ValueKind::gradient || !pipeline.loop_over(turn.loop)) continue;
      for (const DimId dim : turn.type.dims) {
        const Rule* rule = rule_for(layout_, turn.kind, turn.paths, turn.type.dims, dim);
        if (rule == nullptr || !contains(rule->axes, pipeline.axis) || !wrong.insert(rule).second) continue;
        const std::string& axis = layout_.mesh.axes[pipeline.axis].name;
        sink_
            .error("E0424", rule->span,
                   "the gradient of `{}` is split over `{}`, along which the stages of a pipeline lie", turn.paths.path,
                   axis)
            .here("each stage computes the gradients of its turns alone")
            .label(pipeline.span, "the pipeline")
            .label(turn.span, "read by its turns")
            .help("split it over another axis");
      }
    }
    return wrong.empty();
  }

  /// The same rule of moments, which are nobody's stage; of those that lie at their turn's stage already, it holds not.
  /// "" where there are no others.
  std::string instead_of_moments(const Rule& rule, const std::string& axis) const {
    bool found = false;
    std::set<std::string> turns;
    for (const Subject& subject : subjects_of(graph_)) {
      const auto& dims = subject.type.dims;
      if (subject.kind != ValueKind::parameter ||
          !std::ranges::all_of(rule.dims, [&](DimId d) { return std::ranges::count(dims, d) > 0; }))
        continue;
      const auto is_of_turns = [&](DimId dim) { return layout_.pipeline.loop_over(dim).has_value(); };
      found = found || std::ranges::none_of(dims, is_of_turns);
      for (const DimId dim : dims)
        if (is_of_turns(dim)) turns.insert(graph_.dim(dim).name);
    }
    if (!found) return "";
    return fmt::format("; gradients and moments may be split over `{}`, `optimizer {{ {} -> {}{}{} }}`", axis,
                       dims_text(graph_, rule.dims, " * "), rule.written, turns.empty() ? "" : " unless ",
                       fmt::join(turns, ", "));
  }

  void check(const Subject& subject) {
    std::vector<std::pair<AxisId, const Rule*>> taken;
    check_ranks(subject);
    for (DimId dim : subject.type.dims) {
      const Rule* rule = rule_for(layout_, subject.kind, subject.paths, subject.type.dims, dim);
      if (rule == nullptr) continue;
      for (AxisId axis : rule->axes) {
        const auto first = std::find_if(taken.begin(), taken.end(), [&](const auto& one) { return one.first == axis; });
        if (first == taken.end()) taken.emplace_back(axis, rule);
        else two_dims(subject, axis, *first->second, *rule);
      }
    }
  }

  void two_dims(const Subject& subject, AxisId axis, const Rule& first, const Rule& second) {
    if (!reported_.insert({&first, &second}).second) return;
    const std::string& name = layout_.mesh.axes[axis].name;
    auto report = sink_.error("E0401", second.span, "layout puts two dims of one tensor on mesh axis `{}`", name);
    report.here("conflicts in {} : {}", called(subject), to_string(graph_, subject.type));
    if (first.span != second.span) report.label(first.span, "first use");
    report.label(subject.span, "here");
    if (is_of_turns_alone(first, second)) {
      report.help("leave it out: what belongs to a turn lies at its stage already");
      return;
    }
    const std::vector<RewrittenRule> apart = rules_apart(graph_, subject.type.dims, first, second);
    if (first.span == second.span) report.help(fmt::format("split one of them alone: `{}`", apart.front().text));
    else
      report.help(fmt::format("keep `{}` whole wherever `{}` is split: `{}`", dims_text(graph_, second.dims, " * "),
                              graph_.dim(first.dims.front()).name, apart.front().text));
    for (const RewrittenRule& one : apart)
      if (!is_of_pipeline(one.span)) report.alternative(one.span, one.text);
  }

  bool is_of_pipeline(Span rule) const { return layout_.pipeline && rule == layout_.pipeline.span; }

  /// Whether one of the rules is that of a pipeline, and the other one places only what its turns have.
  bool is_of_turns_alone(const Rule& first, const Rule& second) const {
    if (is_of_pipeline(first.span) == is_of_pipeline(second.span)) return false;
    const Rule& other = is_of_pipeline(first.span) ? second : first;
    return std::ranges::none_of(subjects_of(graph_), [&](const Subject& one) {
      const std::vector<DimId>& dims = one.type.dims;
      return std::ranges::none_of(dims, [&](DimId dim) { return layout_.pipeline.loop_over(dim).has_value(); }) &&
             std::ranges::any_of(
                 dims, [&](DimId dim) { return rule_for(layout_, one.kind, one.paths, dims, dim) == &other; });
    });
  }

  /// Turns that ranks may make for themselves are split even where no value has their dim.
  void check_turns(const Node& node) {
    const auto* loop = std::get_if<LoopOp>(&node.op);
    if (!loop || !turns_are_free(graph_, *loop) || !ruled_turns(layout_, node.scope, loop->dim)) return;
    check_ranks({ValueKind::nameless, {node.scope}, {Type::i32, {}, {loop->dim}}, node.span});
  }

  void check_ranks(const Subject& subject) {
    for (DimId dim : subject.type.dims) check_ranks(subject, dim);
  }

  void check_ranks(const Subject& subject, DimId dim) {
    const Rule* top = nullptr;
    std::optional<int> rank;
    for (const Rule& rule : layout_.rules) {
      const auto own = rule_rank(rule, subject.kind, subject.paths, subject.type.dims, dim);
      if (own) effective_.insert(&rule);
      if (!own || (rank && *own < *rank)) continue;
      if (rank && *own == *rank && !says_again(*top, rule) && reported_.insert({top, &rule}).second) {
        auto report = sink_.error("E0406", rule.span, "two rules of equal rank place dim `{}` of {}",
                                  graph_.dim(dim).name, called(subject));
        report.label(top->span, "the first").label(subject.span, to_string(graph_, subject.type));
        if (const std::string names = names_that_differ(subject, *top, rule); !names.empty())
          report.note("{} are names of one value", names);
      }
      top = &rule;
      rank = own;
    }
  }

  /// One rule under two names of a value: `tensor q, Scale { hid -> none }`.
  static bool says_again(const Rule& rule, const Rule& other) {
    return rule.pin && other.pin && rule.span == other.span && rule.pin->text() != other.pin->text();
  }

  /// "`p` and `q`" where two pins call a value by one of its names each.
  static std::string names_that_differ(const Subject& subject, const Rule& rule, const Rule& other) {
    if (!rule.pin || !other.pin) return "";
    std::vector<std::string> names{subject.paths.path};
    names.insert(names.end(), subject.paths.others.begin(), subject.paths.others.end());
    const auto named_by = [&](const Rule& one) {
      return std::ranges::find_if(names, [&](const std::string& name) { return one.pin->matches(name); });
    };
    const auto first = named_by(rule), second = named_by(other);
    return first == second ? "" : fmt::format("`{}` and `{}`", *first, *second);
  }

  /// Whether the rule says what is computed again of a loop over its dim, whatever has that dim.
  bool computes_again(const Rule& rule) const {
    if (rule.scope != RuleScope::general || rule.in || rule.pin || !rule.axes.empty()) return false;
    return std::ranges::any_of(rule.dims, [&](DimId dim) {
      const std::string& loop = graph_.dim(dim).name;
      return layout_.remat.loops.contains(dim) ||
             std::ranges::any_of(layout_.remat.values, [&](const auto& value) { return lies_under(value, loop); });
    });
  }

  /// Whether the rule cuts the loops of the pipeline, which need not have parameters of their own.
  bool cuts_pipeline(const Rule& rule) const {
    return layout_.pipeline && rule.span == layout_.pipeline.span &&
           std::ranges::any_of(rule.dims, [&](DimId dim) { return layout_.pipeline.loop_over(dim).has_value(); });
  }

  bool has_effect(const Rule& rule) const { return effective_.contains(&rule) || cuts_pipeline(rule); }

  void check_effects() {
    for (const Rule& rule : layout_.rules) {
      if (has_effect(rule) || computes_again(rule)) continue;
      const bool several = rule.dims.size() > 1;
      sink_
          .lint("unused_layout_rule", rule.span, "no {} of `{}`{} has {} `{}`{}", spoken_of(rule), graph_.model,
                where(rule), several ? "the dims" : "a dim", dims_text(graph_, rule.dims, "`, `"),
                rule.unless.empty() ? "" : fmt::format(" without `{}`", dims_text(graph_, rule.unless, "` or `")))
          .here("has no effect");
    }
  }

  static std::string spoken_of(const Rule& rule) {
    switch (rule.scope) {
      case RuleScope::general: return "value";
      case RuleScope::params: return "parameter";
      case RuleScope::grads: return "gradient";
      case RuleScope::optimizer: return "optimizer state";
      case RuleScope::activations: return "activation";
      case RuleScope::state: return "state";
    }
    return "value";
  }

  /// " under `layer`", " called `wq`"
  static std::string where(const Rule& rule) {
    if (rule.pin) return fmt::format(" called `{}`", rule.pin->text());
    return rule.in ? fmt::format(" under `{}`", rule.in->text()) : "";
  }

  void check_axes() {
    for (size_t i = 0; i < layout_.mesh.axes.size(); ++i) {
      const MeshAxis& axis = layout_.mesh.axes[i];
      const AxisId id = static_cast<AxisId>(i);
      const auto uses = [&](const Rule& rule) {
        return has_effect(rule) && std::find(rule.axes.begin(), rule.axes.end(), id) != rule.axes.end();
      };
      if (axis.size == 1 || std::any_of(layout_.rules.begin(), layout_.rules.end(), uses)) continue;
      if (contains(layout_.replicated, id) || contains(layout_.replicas.axes, id)) continue;
      sink_.lint("idle_mesh_axis", axis.span, "layout `{}` never uses mesh axis `{}`", layout_.name, axis.name)
          .here("its {} ranks repeat the same work", axis.size)
          .label(layout_.span, "this layout")
          .help(fmt::format("split a dim over it, or write `replicate over {}` if the copies are meant", axis.name));
    }
  }

  void check_parts(const Rule& rule) {
    int64_t size = 1;
    for (DimId dim : rule.dims) size *= graph_.dim(dim).size;
    const int64_t parts = layout_.mesh.size(rule.axes);
    if (size >= parts || cuts_pipeline(rule)) return;
    sink_.lint("idle_ranks", rule.span, "`{}` = {} is split over {} ranks: {} own nothing of it",
               graph_.dim(rule.dims.front()).name, size, parts, parts - size);
  }

  const Graph& graph_;
  const Layout& layout_;
  DiagnosticSink& sink_;
  std::set<std::pair<const Rule*, const Rule*>> reported_;
  std::set<const Rule*> effective_;  // that place a dim of some value, were there no stronger ones
};

}  // namespace

void check_rules(const Graph& graph, const Layout& layout, DiagnosticSink& sink) {
  if (!layout.replicas) return Checker(graph, layout, sink).run();
  Layout of_replica = layout;  // no other rule uses the axes that replicas are along
  std::erase_if(of_replica.rules, [&](const Rule& rule) { return rule.span == layout.replicas.rule; });
  Checker(graph, of_replica, sink).run();
}

}  // namespace mesh
