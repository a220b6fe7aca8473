#include "codegen/layout/resolve_manual.h"

#include <algorithm>

#include "codegen/graph/dims.h"
#include "codegen/layout/resolve_mesh.h"

namespace mesh {
namespace {

/// E0427 where the ranks of the axis are stages or replicas.
bool is_taken(const RanksDim& ranks, AxisId axis, const Layout& layout, DiagnosticSink& sink) {
  const bool stages = layout.pipeline && layout.pipeline.axis == axis;
  if (!stages && !(layout.replicas && contains(layout.replicas.axes, axis))) return false;
  sink.error("E0427", ranks.span,
             fmt::format("a manual region over `{}`, whose ranks are {}", ranks.axis,
                         stages ? "the stages of a pipeline" : "replicas that train apart"))
      .here(stages ? "each computes another part of the model" : "each computes with a model of its own")
      .label(stages ? layout.pipeline.span : layout.replicas.rule, "in layout `" + layout.name + "`")
      .help("give the region another axis of the mesh");
  return true;
}

/// E0427 for rules that place the ranks themselves.
void check_own(const RanksDim& ranks, const Graph& graph, const Layout& layout, DiagnosticSink& sink) {
  for (const Rule& rule : layout.rules)
    if (has(rule.dims, ranks.dim))
      sink.error("E0427", rule.span,
                 fmt::format("a rule for `{}`, which counts the ranks of `{}` in a manual region",
                             graph.dim(ranks.dim).name, ranks.axis))
          .here("it lies on `{}` under every layout", ranks.axis)
          .label(ranks.span, "the region")
          .help("leave it out");
}

/// E0427 for rules for all values: what the region reads is cut otherwise everywhere else. Parameters alone, or values
/// of a name, may lie otherwise: they are moved.
void check_cuts(const RanksDim& ranks, AxisId axis, const Graph& graph, const Layout& layout, DiagnosticSink& sink) {
  for (const RanksDim::Cut& cut : ranks.cuts)
    for (const Rule& rule : layout.rules) {
      const bool of_all = rule.scope == RuleScope::general && !rule.in && !rule.pin;
      if (!of_all || rule.dims != std::vector{cut.whole} || rule.axes.empty() || contains(rule.axes, axis)) continue;
      const std::string& dim = graph.dim(cut.whole).name;
      sink.error("E0427", rule.span,
                 fmt::format("`{}` is cut over `{}`, and a manual region cuts it over `{}`", dim, rule.written,
                             ranks.axis))
          .label(cut.span, "the region")
          .help(fmt::format("`{0} -> {1}` agrees with the region; for what lies otherwise in between, rules in `params "
                            "{{ }}` or `tensor NAME {{ }}`",
                            dim, ranks.axis));
    }
}

}  // namespace

std::map<std::string, int64_t> axes_of_layout(const SourceProgram& program, const Graph& dims,
                                              const LayoutOptions& options) {
  DiagnosticSink unheard;
  const Declarations declared = declarations_of(program, unheard);
  const ast::Layout* layout = options.layout.empty() ? declared.layout("default") : declared.layout(options.layout);
  if (layout == nullptr && options.layout.empty() && declared.layouts.size() == 1) layout = declared.layouts.front();
  const ast::Mesh* mesh = layout == nullptr ? nullptr : declared.mesh(layout->mesh.text);
  if (mesh == nullptr) return {};
  std::map<std::string, int64_t> axes;
  if (const auto shape = resolve_mesh(*mesh, declared, dims, options, unheard))
    for (const MeshAxis& axis : shape->axes) axes[axis.name] = axis.size;
  return axes;
}

void place_ranks(const Graph& graph, Layout& layout, DiagnosticSink& sink) {
  for (const RanksDim& ranks : graph.ranks_dims) {
    check_own(ranks, graph, layout, sink);
    const auto axis = std::ranges::find(layout.mesh.axes, ranks.axis, &MeshAxis::name);
    if (axis == layout.mesh.axes.end() || axis->size == 1) continue;
    const auto id = static_cast<AxisId>(axis - layout.mesh.axes.begin());
    if (is_taken(ranks, id, layout, sink)) continue;
    check_cuts(ranks, id, graph, layout, sink);
    Rule rule;
    rule.dims = {ranks.dim};
    rule.axes = {id};
    rule.span = ranks.span;
    rule.written = ranks.axis;
    layout.rules.push_back(std::move(rule));
  }
}

}  // namespace mesh
