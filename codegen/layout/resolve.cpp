#include "codegen/layout/resolve.h"

#include <cctype>
#include <set>
#include <utility>

#include "codegen/elaborate/declarations.h"
#include "codegen/layout/resolve_attributes.h"
#include "codegen/layout/resolve_check.h"
#include "codegen/layout/resolve_manual.h"
#include "codegen/layout/resolve_mesh.h"
#include "codegen/layout/resolve_replicas.h"
#include "codegen/layout/resolve_rules.h"
#include "codegen/layout/spread_merged.h"
#include "frontend/suggest.h"

namespace mesh {
namespace {

std::string listed(const Declarations& declared) {
  std::string names;
  for (const ast::Layout* layout : declared.layouts) names += (names.empty() ? "" : ", ") + layout->name.text;
  return names;
}

/// E0405 unless it is clear which layout is meant. There must be one.
const ast::Layout* choose(const Declarations& declared, const LayoutOptions& options, DiagnosticSink& sink) {
  if (!options.layout.empty()) {
    if (const ast::Layout* layout = declared.layout(options.layout)) return layout;
    auto report = sink.error("E0405", Span{}, "no layout is called `{}`", options.layout);
    std::vector<std::string> names;
    for (const ast::Layout* layout : declared.layouts) names.push_back(layout->name.text);
    if (const auto near = did_you_mean(options.layout, names)) report.help(fmt::format("did you mean `{}`?", *near));
    report.note("layouts of the spec: " + listed(declared));
    return nullptr;
  }
  if (const ast::Layout* layout = declared.layout("default")) return layout;
  if (declared.layouts.size() == 1) return declared.layouts.front();
  sink.error("E0405", declared.layouts[1]->name.span, "the spec has {} layouts, and none is called `default`",
             declared.layouts.size())
      .label(declared.layouts[0]->name.span, "the first")
      .note("layouts of the spec: " + listed(declared))
      .help(fmt::format("choose one: `--layout {}`", declared.layouts[0]->name.text));
  return nullptr;
}

/// A file without layouts runs on one rank.
std::optional<Layout> one_rank(const LayoutOptions& options, DiagnosticSink& sink) {
  constexpr auto way_out = "`mesh line { data: 2 }` and `layout default on line { batch -> data }` split it";
  if (!options.layout.empty())
    sink.error("E0405", Span{}, "no layout is called `{}`: the spec has none", options.layout).help(way_out);
  else if (!options.mesh.empty())
    sink.error("E0405", Span{}, "the spec has no layout whose mesh `--mesh` could resize").help(way_out);
  else if (options.ranks && *options.ranks != 1)
    sink.error("E0409", Span{}, "the spec has no layout, so it runs on 1 rank, not {} (-n {})", *options.ranks,
               *options.ranks)
        .help(way_out);
  else return Layout{};
  return {};
}

/// Every word of the spec's other models: a rule for a dim that only they name is no mistake.
std::set<std::string> words_of_others(const Declarations& declared, const std::string& model,
                                      const SourceProgram& program, const SourceMap& sources) {
  std::set<std::string> words;
  for (const Ast& file : program.files)
    for (const ast::Decl& decl : file.decls) {
      const auto* other = std::get_if<ast::Model>(&decl.node);
      if (other == nullptr || other->name.text == model || declared.model(other->name.text) != other) continue;
      std::string word;
      for (const char c : std::string(sources.text(decl.span)) + " ") {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') word += c;
        else words.insert(std::exchange(word, {}));
      }
    }
  return words;
}

}  // namespace

std::optional<Layout> resolve_layout(const SourceProgram& program, const Graph& graph, const LayoutOptions& options,
                                     SourceMap& sources, DiagnosticSink& sink, const ast::Rules* found) {
  const size_t errors_before = sink.error_count();
  const Declarations declared = declarations_of(program, sink);
  if (declared.layouts.empty()) return one_rank(options, sink);
  const ast::Layout* written = choose(declared, options, sink);
  if (written == nullptr) return {};
  const ast::Mesh* mesh = declared.mesh(written->mesh.text);
  if (mesh == nullptr) {
    std::vector<std::string> names;
    for (const ast::Mesh* known : declared.meshes) names.push_back(known->name.text);
    auto report = sink.error("E0407", written->mesh.span, "unknown mesh `{}`", written->mesh.text);
    if (const auto near = did_you_mean(written->mesh.text, names)) report.here("did you mean `{}`?", *near);
    return {};
  }
  const auto shape = resolve_mesh(*mesh, declared, graph, options, sink);
  if (!shape) return {};
  Layout layout;
  layout.name = written->name.text;
  layout.span = written->name.span;
  layout.mesh = *shape;
  layout.other_schedule = options.schedule;
  const std::set<std::string> elsewhere = words_of_others(declared, graph.model, program, sources);
  resolve_rules(written->rules, graph, elsewhere, sources, layout, sink);
  if (found) {
    resolve_rules(*found, graph, elsewhere, sources, layout, sink);
    layout.automatic = {};
  }
  place_ranks(graph, layout, sink);
  if (sink.error_count() > errors_before) return {};
  if (layout.automatic.known()) return layout;  // to be completed
  check_replicas(graph, layout, sink);
  check_micro_batches(graph, layout, sink);
  if (sink.error_count() > errors_before) return {};
  check_rules(graph, layout, sink);
  if (sink.error_count() == errors_before) spread_merged(graph, layout, sink);
  if (sink.error_count() > errors_before) return {};
  return layout;
}

}  // namespace mesh
