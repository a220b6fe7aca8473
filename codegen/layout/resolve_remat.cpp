#include "codegen/layout/resolve_remat.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "codegen/layout/resolve_attributes.h"
#include "frontend/suggest.h"

namespace mesh {
namespace {

const std::vector<std::string> remat_words{"none", "layer", "every 2", "stage", "except_last"};
constexpr std::string_view every = "every ";

class RematOfRule {
 public:
  RematOfRule(const ast::Place& place, const ast::Attribute& attribute, const Graph& graph,
              const std::set<DimId>& loops, Layout& layout, DiagnosticSink& sink)
      : place_(place), value_(*attribute.value), graph_(graph), loops_(loops), layout_(layout), sink_(sink) {}

  void resolve() {
    const auto* text = ast::as<ast::String>(value_);
    if (!text) return values();
    if (text->value == "none") return;
    if (text->value == "stage" || text->value == "except_last") return stages();
    if (text->value == "layer") return turns(1);
    if (text->value.starts_with(every)) return groups(std::string_view(text->value).substr(every.size()));
    report_unknown(did_you_mean(text->value, remat_words));
  }

 private:
  void report_unknown(const std::optional<std::string>& near) {
    auto report = sink_.error("E0411", value_.span, "`remat` says what is computed again for the gradients");
    if (near) report.here("did you mean \"{}\"?", *near);
    else report.here("known are \"{}\", and names of values", fmt::join(remat_words, "\", \""));
    report.help("\"layer\": each turn of the loop keeps only what it began with; \"stage\": each stage of a pipeline");
  }

  /// Of which resolve_pipeline.h takes it.
  void stages() {
    if (makes_pipeline(place_)) return;
    sink_.error("E0411", value_.span, "`remat` of stages in a rule that makes no pipeline")
        .here("a stage keeps only what came into it")
        .help(R"(`remat: "layer"` keeps what each turn of the loop began with; `microbatches: 8` makes a pipeline)");
  }

  /// The loops that the rule names; E0411 for what is none.
  std::vector<DimId> rule_loops() {
    std::vector<DimId> found;
    for (const ast::Product& product : place_.dims) {
      const DimId dim = dim_of(graph_, product);
      if (dim && loops_.contains(dim)) {
        found.push_back(dim);
        continue;
      }
      sink_.error("E0411", product.span, "no `repeat` of the model runs over `{}`", product.text())
          .here("`remat` computes the turns of a `repeat` again");
    }
    return found;
  }

  void turns(int64_t size) {
    for (const DimId dim : rule_loops()) layout_.remat.loops[dim] = size;
  }

  void groups(std::string_view written) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), size);
    if (error != std::errc() || end != written.data() + written.size() || size < 1) {
      sink_.error("E0411", value_.span, "every how many turns one keeps what came into it is a whole number from 1")
          .here("is none")
          .help(R"(write `remat: "every 2"`)");
      return;
    }
    bool even = true;
    for (const DimId dim : rule_loops()) even = is_even(dim, size) && ends_with_the_last(dim) && even;
    if (even) turns(size);
  }

  bool is_even(DimId dim, int64_t size) {
    const Dim& turns = graph_.dim(dim);
    if (turns.size % size == 0) return true;
    int64_t less = std::min(size, turns.size), more = size;
    while (turns.size % less != 0) --less;
    while (more < turns.size && turns.size % more != 0) ++more;
    const std::string near = more > turns.size || more == less
                                 ? fmt::format(R"(`remat: "every {}"`)", less)
                                 : fmt::format(R"(`remat: "every {}"` or `"every {}"`)", less, more);
    sink_.error("E0411", value_.span, "groups of {} turns do not divide `{}` = {}", size, turns.name, turns.size)
        .label(turns.span, "the turns")
        .help(fmt::format("{} would do", near));
    return false;
  }

  bool ends_with_the_last(DimId dim) {
    for (const Node& node : graph_.nodes) {
      const auto* loop = std::get_if<LoopOp>(&node.op);
      if (!loop || loop->dim != dim || !until(graph_, *loop)) continue;
      sink_.error("E0411", value_.span, "`remat` of groups of turns of a loop that may end within a group")
          .label(node.span, "`until`")
          .help(R"(`remat: "layer"` computes each turn again by itself)");
      return false;
    }
    return true;
  }

  // ---- named values

  void values() {
    const auto* group = ast::as<ast::Group>(value_);
    std::vector<const ast::Expr*> written{&value_};
    if (group) written.clear();
    if (group)
      for (const ast::ExprPtr& one : group->values) written.push_back(one.get());
    std::vector<std::pair<std::string, Span>> paths;
    for (const ast::Expr* one : written) {
      const auto* path = ast::as<ast::Path>(*one);
      if (!path) return report_unknown({});
      paths.emplace_back(path->text(), one->span);
    }
    const std::vector<DimId> over = rule_loops();
    if (over.size() != place_.dims.size()) return;
    for (const auto& [path, span] : paths)
      if (is_computed(path, span, over)) layout_.remat.values.insert(path);
  }

  /// Whether what is in the body is in a turn of one of the loops.
  bool is_inside(BodyId body, const std::vector<DimId>& loops) const {
    for (; body != graph_.root(); body = graph_.node(graph_.body(body).owner).body) {
      const auto& loop = std::get<LoopOp>(graph_.node(graph_.body(body).owner).op);
      if (std::ranges::find(loops, loop.dim) != loops.end()) return true;
    }
    return false;
  }

  /// E0411 for a path of no value that a turn computes.
  bool is_computed(const std::string& path, Span span, const std::vector<DimId>& loops) {
    std::vector<std::string> inside;
    const Node* elsewhere = nullptr;
    const auto look = [&](const std::string& name, const Node& node, BodyId body) {
      if (name.empty() || std::holds_alternative<LoopOp>(node.op)) return false;
      if (!is_inside(body, loops)) {
        if (lies_under(name, path)) elsewhere = &node;
        return false;
      }
      inside.push_back(name);
      return lies_under(name, path);
    };
    for (const auto& [name, value] : graph_.names) {
      const Node& node = graph_.node(graph_.value(value).producer);
      if (look(name, node, graph_.value(value).body)) return true;
    }
    for (const Node& node : graph_.nodes)
      if (look(node.scope, node, node.body)) return true;
    report_not_computed(path, span, loops, inside, elsewhere);
    return false;
  }

  void report_not_computed(const std::string& path, Span span, const std::vector<DimId>& loops,
                           std::vector<std::string> inside, const Node* elsewhere) {
    std::string names;
    for (const DimId dim : loops) names += fmt::format("{}`{}`", names.empty() ? "" : ", ", graph_.dim(dim).name);
    std::ranges::sort(inside);
    inside.erase(std::unique(inside.begin(), inside.end()), inside.end());
    const auto stored = std::ranges::find(graph_.stored, path, &Stored::path);
    if (stored != graph_.stored.end()) {
      sink_.error("E0411", span, "`{}` is no value that turns of {} compute", path, names)
          .here("what is stored is there in any case")
          .label(stored->span, "here");
      return;
    }
    if (elsewhere) {
      sink_.error("E0411", span, "`{}` is not computed in turns of {}", path, names)
          .here("what is made outside of a `repeat` is made once, and kept")
          .label(elsewhere->span, "here");
      return;
    }
    auto report = sink_.error("E0411", span, "no value of a turn of {} is called `{}`", names, path);
    if (const auto near = did_you_mean(path, inside)) report.here("did you mean `{}`?", *near).fix(span, *near);
    else report.note("values and blocks of a turn: " + some_of(inside));
  }

  const ast::Place& place_;
  const ast::Expr& value_;
  const Graph& graph_;
  const std::set<DimId>& loops_;
  Layout& layout_;
  DiagnosticSink& sink_;
};

}  // namespace

void resolve_remat(const ast::Place& place, const ast::Attribute& attribute, const Graph& graph,
                   const std::set<DimId>& loops, Layout& layout, DiagnosticSink& sink) {
  RematOfRule(place, attribute, graph, loops, layout, sink).resolve();
}

}  // namespace mesh
