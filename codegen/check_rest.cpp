#include "codegen/check_rest.h"

#include "codegen/graph/elaborate/declarations.h"
#include "codegen/graph/elaborate/elaborate.h"
#include "codegen/layout/resolve.h"
#include "frontend/imports.h"
#include "frontend/unused.h"

namespace mesh {
namespace {

/// Hands on what was found. Lints of what is not chosen would only distract, and how many ranks there are (E0409,
/// E0410) is the business of the chosen layout.
void hand_on(const DiagnosticSink& found, DiagnosticSink& sink) {
  for (Diagnostic& one : found.diagnostics()) {
    if (one.level != Level::error || one.code == "E0409" || one.code == "E0410") continue;
    if (one.code != "E0901") {
      sink.add(std::move(one));
      continue;
    }
    DiagnosticBuilder lint = sink.lint("not_built_yet", one.span(), one.message);
    lint.here(one.labels.front().text);
    for (const std::string& help : one.helps) lint.help(help);
  }
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
    return elaborate(program, sources, {model, request.set, request.precision == "f64"}, into);
  };
  const std::optional<Graph> chosen = graph_of(request.model, again);
  for (const ast::Model* model : declared.models) {
    if (declared.models.size() == 1 || model->name.text == request.model) continue;
    DiagnosticSink found;
    graph_of(model->name.text, found);
    hand_on(found, sink);
  }
  if (!chosen) return;
  if (!sink.has_errors()) report_unused(program, sink);  // else a name that is misspelt would count as unused
  const std::string used = chosen_layout(request, declared);
  for (const ast::Layout* layout : declared.layouts) {
    if (layout->name.text == used) continue;
    DiagnosticSink found;
    resolve_layout(program, *chosen, {layout->name.text, {}, {}}, sources, found);
    hand_on(found, sink);
  }
}

}  // namespace mesh
