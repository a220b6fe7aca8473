#include "codegen/layout/resolve_rules.h"

#include <algorithm>
#include <set>

#include "codegen/layout/resolve_attributes.h"
#include "codegen/layout/resolve_pipeline.h"
#include "codegen/layout/resolve_replicas.h"
#include "frontend/suggest.h"

namespace mesh {
namespace {

Glob glob_of(const ast::Glob& written, const std::optional<Glob>& under) {
  Glob glob = under.value_or(Glob{});
  for (const ast::Name& part : written.parts) glob.parts.push_back(part.text);
  return glob;
}

/// Where a rule stands: the braces around it.
struct Around {
  RuleScope scope = RuleScope::general;
  std::optional<Glob> in, pin;
};

class Rules {
 public:
  Rules(const Graph& graph, const std::set<std::string>& elsewhere, SourceMap& sources, Layout& layout,
        DiagnosticSink& sink)
      : graph_(graph), elsewhere_(elsewhere), sources_(sources), layout_(layout), sink_(sink) {
    for (const Value& value : graph.values) used_.insert(value.type.dims.begin(), value.type.dims.end());
    for (const Stored& stored : graph.stored) {
      used_.insert(stored.type.dims.begin(), stored.type.dims.end());
      paths_.insert(stored.path);
    }
    for (const Node& node : graph.nodes) {
      if (const LoopOp* loop = std::get_if<LoopOp>(&node.op)) loops_.insert(loop->dim);
      if (!node.scope.empty()) paths_.insert(node.scope);
    }
    used_.insert(loops_.begin(), loops_.end());
    for (const auto& [name, value] : graph.names) paths_.insert(name);
  }

  void add(const ast::Rules& rules, const Around& around) {
    for (const ast::Rule& rule : rules) {
      if (const auto* place = std::get_if<ast::Place>(&rule.node)) add_place(*place, rule.span, around);
      else if (const auto* scope = std::get_if<ast::Scope>(&rule.node)) add_scope(*scope, around);
      else if (const auto* pin = std::get_if<ast::Pin>(&rule.node)) add_pin(*pin, around);
      else if (const auto* within = std::get_if<ast::Within>(&rule.node)) add_within(*within, around);
      else if (const auto* replicate = std::get_if<ast::Replicate>(&rule.node)) add_replicate(*replicate);
      else if (std::holds_alternative<ast::Closed>(rule.node)) layout_.closed = true;
      else add_auto(rule.span, around);
    }
  }

 private:
  std::vector<std::string> dim_names() const {
    std::set<std::string> names;
    for (DimId dim : used_) names.insert(graph_.dim(dim).name);
    return {names.begin(), names.end()};
  }

  /// E0403 unless some dim has the name. Unset, too, for a dim that the model does not use.
  DimId dim_named(const ast::Name& name, bool& known) {
    for (uint32_t i = 0; i < graph_.dims.size(); ++i)
      if (graph_.dims[i].name == name.text) return used_.count(DimId{i}) > 0 ? DimId{i} : DimId{};
    known = false;
    auto report = sink_.error("E0403", name.span, "layout rule names no dim: `{}`", name.text);
    const auto names = dim_names();
    if (const auto near = did_you_mean(name.text, names)) {
      report.here("did you mean `{}`?", *near).fix(name.span, *near);
    } else {
      std::string all;
      for (const std::string& one : names) all += (all.empty() ? "" : ", ") + one;
      report.here("dims of model {}: {}", graph_.model, all);
    }
    return {};
  }

  std::optional<AxisId> axis_named(const ast::Name& name) {
    std::vector<std::string> names;
    for (size_t i = 0; i < layout_.mesh.axes.size(); ++i) {
      if (layout_.mesh.axes[i].name == name.text) return static_cast<AxisId>(i);
      names.push_back(layout_.mesh.axes[i].name);
    }
    auto report = sink_.error("E0404", name.span, "mesh `{}` has no axis `{}`", layout_.mesh.name, name.text);
    report.label(layout_.mesh.span, "the layout's mesh");
    if (const auto near = did_you_mean(name.text, names))
      report.here("did you mean `{}`?", *near).fix(name.span, *near);
    return {};
  }

  /// The axes of more than one rank; nothing when an error was reported.
  std::optional<std::vector<AxisId>> axes_of(const ast::Target& target) {
    std::vector<AxisId> axes;
    bool good = true;
    if (target.none) return axes;
    for (const ast::Name& name : target.axes.names) {
      const auto axis = axis_named(name);
      if (!axis) {
        good = false;
      } else if (contains(axes, *axis)) {
        sink_.error("E0404", name.span, "axis `{}` stands twice in one product", name.text);
        good = false;
      } else if (layout_.mesh.axes[*axis].size > 1) {
        axes.push_back(*axis);
      }
    }
    if (!good) return {};
    return axes;
  }

  void add_place(const ast::Place& place, Span span, const Around& around) {
    const bool general = around.scope == RuleScope::general && !around.in && !around.pin;
    resolve_attributes(place, graph_, loops_, general, layout_, sink_);
    const auto axes = axes_of(place.target);
    std::vector<DimId> unless;
    bool known = true;
    for (const ast::Name& name : place.unless)
      if (const DimId dim = dim_named(name, known)) unless.push_back(dim);
    const bool idle = axes && axes->empty() && !place.target.none;  // over axes of size 1
    if (axes && general && makes_pipeline(place))
      resolve_pipeline(place, span, graph_, loops_, *axes, sources_, layout_, sink_);
    if (axes && general && makes_replicas(place)) resolve_replicas(place, span, graph_, *axes, layout_, sink_);
    for (const ast::Product& product : place.dims) {
      Rule rule{{}, axes.value_or(std::vector<AxisId>{}), unless, around.scope, around.in, around.pin, span};
      rule.written = place.target.axes.text();
      for (const ast::Product& one : place.dims) rule.listed.push_back(one.text());
      bool used = true;
      for (const ast::Name& name : product.names) {
        bool here = true;
        const DimId dim = dim_named(name, here);
        known = known && here;
        used = used && dim;
        rule.dims.push_back(dim);
      }
      if (!known || !axes || idle) continue;
      if (!used) {
        const bool by_another = std::any_of(product.names.begin(), product.names.end(),
                                            [&](const ast::Name& name) { return elsewhere_.count(name.text) > 0; });
        if (by_another) continue;
        sink_.lint("unused_layout_rule", product.span, "no value of `{}` has a dim `{}`", graph_.model, product.text())
            .here("has no effect");
        continue;
      }
      rule.deal = deal_of(place, graph_, layout_.mesh, rule.axes, rule.dims[0], sink_);
      if (layout_.pipeline && layout_.pipeline.span == span)
        if (const auto loop = layout_.pipeline.loop_over(rule.dims[0])) rule.deal = layout_.pipeline.loops[*loop].deal;
      if (is_new(rule, product)) layout_.rules.push_back(rule);
    }
  }

  /// E0406 where a rule with the same scope, paths and dim stands already.
  bool is_new(const Rule& rule, const ast::Product& product) {
    const auto text = [](const std::optional<Glob>& glob) { return glob ? glob->text() : std::string(); };
    const auto is_by_sync = [&](const Rule& one) { return one.span == layout_.replicas.rule; };
    for (const Rule& other : layout_.rules) {
      if (is_by_sync(other) != is_by_sync(rule)) continue;  // one divides the samples among replicas, one those of each
      if (other.dims != rule.dims || other.scope != rule.scope || text(other.in) != text(rule.in) ||
          text(other.pin) != text(rule.pin))
        continue;
      sink_.error("E0406", product.span, "two rules of equal rank place dim `{}`", product.text())
          .here("the second one")
          .label(other.span, "the first")
          .help(rule.axes.empty() || other.axes.empty() ||
                        std::ranges::any_of(rule.axes, [&](AxisId axis) { return contains(other.axes, axis); })
                    ? "leave one of them out"
                    : "both axes together are a product: `dim -> first * second`");
      return false;
    }
    return true;
  }

  void add_scope(const ast::Scope& scope, Around around) {
    if (around.scope != RuleScope::general || around.pin) {
      sink_
          .error("E0408", scope.scope.span, "`{}` inside {}", scope.scope.text,
                 around.pin ? "a tensor pin" : "another scope")
          .here("never holds more than what is around it");
      return;
    }
    const std::string& name = scope.scope.text;
    if (name == "params") around.scope = RuleScope::params;
    else if (name == "grads") around.scope = RuleScope::grads;
    else if (name == "optimizer") around.scope = RuleScope::optimizer;
    else if (name == "activations") around.scope = RuleScope::activations;
    else around.scope = RuleScope::state;
    add(scope.rules, around);
  }

  void add_pin(const ast::Pin& pin, const Around& around) {
    if (around.pin || around.scope != RuleScope::general) {
      sink_.error("E0408", pin.tensors.front().span, "a tensor pin inside {}", around.pin ? "another" : "a scope")
          .help("write it beside: a pin stands above both");
      return;
    }
    for (const ast::Glob& tensor : pin.tensors) {
      Around inside = around;
      inside.pin = glob_of(tensor, around.in);
      inside.in.reset();
      if (matches_something(*inside.pin, tensor, false)) add(pin.rules, inside);
    }
  }

  void add_within(const ast::Within& within, Around around) {
    if (around.pin || around.scope != RuleScope::general) {
      sink_.error("E0408", within.path.span, "`in` inside {}", around.pin ? "a tensor pin" : "a scope")
          .help("write the scope inside: `in path { params { ... } }`");
      return;
    }
    around.in = glob_of(within.path, around.in);
    if (matches_something(*around.in, within.path, true)) add(within.rules, around);
  }

  /// E0408 unless the pattern matches a path or, `under`, what paths lie under.
  bool matches_something(const Glob& glob, const ast::Glob& written, bool under) {
    std::vector<std::string> names;
    for (const std::string& path : paths_) {
      names.push_back(path);
      if (glob.matches(path)) return true;
      for (size_t dot = path.find('.'); under && dot != std::string::npos; dot = path.find('.', dot + 1))
        if (glob.matches(path.substr(0, dot))) return true;
    }
    auto report = sink_.error("E0408", written.span, "no {} `{}`",
                              under ? "part of the model is called" : "tensor matches", glob.text());
    if (const auto near = did_you_mean(glob.text(), names)) report.here("did you mean `{}`?", *near);
    else report.note("paths of the model: " + some_of(names));
    return false;
  }

  void add_auto(Span span, const Around& around) {
    if (around.scope == RuleScope::general && !around.in && !around.pin) {
      layout_.automatic = span;
      return;
    }
    sink_.error("E0408", span, "`auto` inside a scope, `in` or pin")
        .here("a search completes the rules of a whole layout")
        .help("write it beside them; what they say is kept");
  }

  void add_replicate(const ast::Replicate& replicate) {
    for (const ast::Name& name : replicate.axes)
      if (const auto axis = axis_named(name); axis && !contains(layout_.replicated, *axis))
        layout_.replicated.push_back(*axis);
  }

  const Graph& graph_;
  const std::set<std::string>& elsewhere_;
  SourceMap& sources_;
  Layout& layout_;
  DiagnosticSink& sink_;
  std::set<DimId> used_, loops_;
  std::set<std::string> paths_;  // of what is stored, of named values, of scopes
};

}  // namespace

void resolve_rules(const ast::Rules& written, const Graph& graph, const std::set<std::string>& elsewhere,
                   SourceMap& sources, Layout& layout, DiagnosticSink& sink) {
  Rules(graph, elsewhere, sources, layout, sink).add(written, {});
}

}  // namespace mesh
