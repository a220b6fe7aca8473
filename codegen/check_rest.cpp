#include "codegen/check_rest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/elaborate/declarations.h"
#include "codegen/elaborate/elaborate.h"
#include "codegen/elaborate/unused_parameters.h"
#include "codegen/layout/resolve_manual.h"
#include "codegen/layout/resolve_mesh.h"
#include "frontend/imports.h"
#include "frontend/lint_levels.h"
#include "frontend/unused.h"

namespace mesh {
namespace {

/// Hands on what was found. Lints of what is not chosen would only distract.
void hand_on(const DiagnosticSink& found, DiagnosticSink& sink) {
  for (Diagnostic& one : found.diagnostics()) {
    if (one.level != Level::error) continue;
    if (one.code != "E0901") {
      sink.add(std::move(one));
      continue;
    }
    DiagnosticBuilder lint = sink.lint("not_built_yet", one.span(), one.message);
    lint.here(one.labels.front().text);
    for (const std::string& help : one.helps) lint.help(help);
  }
}

/// The axis that takes what ranks remain, where the layout's mesh has one.
const ast::Axis* open_axis(const ast::Layout& layout, const Declarations& declared) {
  const ast::Mesh* mesh = declared.mesh(layout.mesh.text);
  if (mesh == nullptr) return nullptr;
  const auto open = std::ranges::find_if(mesh->axes, [](const ast::Axis& axis) { return axis.size == nullptr; });
  return open == mesh->axes.end() ? nullptr : &*open;
}

/// How many ranks there are is said of the chosen layout alone, so that the rules of this one were not looked at.
void report_unchecked(const ast::Layout& layout, const ast::Axis& open, const CompileRequest& request,
                      DiagnosticSink& sink) {
  sink.lint("unchecked_layout", layout.name.span, "the rules of layout `{}` are not checked", layout.name.text)
      .here("its mesh is `{}`", layout.mesh.text)
      .label(open.span, "takes what ranks remain, and their number is not given")
      .help("`meshc check {} --layout {} -n N` checks it for N ranks", fmt::join(request.files, " "), layout.name.text);
}

/// The layout that `compile` takes, whether or not it could.
std::string chosen_layout(const CompileRequest& request, const Declarations& declared) {
  if (!request.layout.empty()) return request.layout;
  return declared.layouts.size() == 1 ? declared.layouts.front()->name.text : "default";
}

}  // namespace

void choose_first(CompileRequest& request, SourceMap& sources) {
  DiagnosticSink unheard;  // `compile` reports
  const SourceProgram program = load_program(request.files, sources, unheard);
  const Declarations declared = declarations_of(program, unheard);
  if (request.model.empty() && declared.models.size() > 1) request.model = declared.models.front()->name.text;
  if (request.layout.empty() && declared.layouts.size() > 1 && declared.layout("default") == nullptr)
    request.layout = declared.layouts.front()->name.text;
}

void check_rest(const CompileRequest& request, SourceMap& sources, DiagnosticSink& sink) {
  DiagnosticSink again;  // what `compile` has reported already
  const SourceProgram program = load_program(request.files, sources, again);
  if (program.files.empty() || again.has_errors()) return;
  const Declarations declared = declarations_of(program, again);
  const auto graph_of = [&](const std::string& model, DiagnosticSink& into) {
    const auto axes = [&](const Graph& dims) {
      return axes_of_layout(program, dims, {request.layout, request.mesh, request.ranks, request.set});
    };
    return elaborate(program, sources, {model, request.set, request.precision == "f64", {}, {}, axes}, into);
  };
  const std::optional<Graph> chosen = graph_of(request.model, again);
  for (const ast::Model* model : declared.models) {
    if (declared.models.size() == 1 || model->name.text == request.model) continue;
    DiagnosticSink found = with_levels_of(sink);
    graph_of(model->name.text, found);
    hand_on(found, sink);
  }
  if (!chosen) return;
  if (!sink.has_errors()) {  // else a name that is misspelt would count as unused
    report_unused(program, sink);
    report_unused_parameters(*chosen, sink);
  }
  const std::string used = chosen_layout(request, declared);
  const ast::Layout* with_sizes = declared.layout(used);  // those given are of its mesh
  for (const ast::Layout* layout : declared.layouts) {
    if (layout->name.text == used) continue;
    CompileRequest other = request;
    other.layout = layout->name.text;
    other.search_seconds = 0.5;  // any rules tell of mistakes
    if (with_sizes == nullptr || with_sizes->mesh.text != layout->mesh.text) {
      other.mesh.clear();
      other.ranks.reset();
    }
    DiagnosticSink found = with_levels_of(sink);
    compile(other, sources, found);
    const ast::Axis* open = open_axis(*layout, declared);
    const auto of_ranks = [&](const Diagnostic& one) { return one.code == "E0409" && one.span() == open->span; };
    if (open != nullptr && std::ranges::any_of(found.diagnostics(), of_ranks))
      report_unchecked(*layout, *open, request, sink);
    else hand_on(found, sink);
  }
  for (const ast::Mesh* mesh : declared.meshes) {
    const auto uses = [&](const ast::Layout* layout) { return layout->mesh.text == mesh->name.text; };
    if (std::ranges::any_of(declared.layouts, uses)) continue;
    DiagnosticSink found;
    check_mesh(*mesh, declared, *chosen, {{}, {}, {}, request.set}, found);
    hand_on(found, sink);
  }
}

}  // namespace mesh
