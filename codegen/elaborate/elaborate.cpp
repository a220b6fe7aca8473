#include "codegen/elaborate/elaborate.h"

#include "codegen/elaborate/blocks.h"
#include "codegen/elaborate/context.h"
#include "codegen/elaborate/declarations.h"
#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/extents.h"
#include "codegen/elaborate/functions.h"
#include "codegen/elaborate/names.h"
#include "codegen/elaborate/narrow_types.h"
#include "codegen/elaborate/state.h"
#include "codegen/elaborate/statements.h"
#include "codegen/elaborate/terms.h"
#include "frontend/suggest.h"

namespace mesh {
namespace {

using namespace elaboration;

/// The model that is asked for; E0207.
const ast::Model* choose_model(Elaboration& e) {
  std::vector<std::string> names;
  for (const ast::Model* model : e.declared.models) names.push_back(model->name.text);
  if (!e.options.model.empty()) {
    if (const ast::Model* model = e.declared.model(e.options.model)) return model;
    auto report = e.error("E0207", Span{}, "no model is called `{}`", e.options.model);
    if (const auto near = did_you_mean(e.options.model, names)) report.help(fmt::format("did you mean `{}`?", *near));
    else report.note("models of the spec: " + quoted(names));
    return nullptr;
  }
  if (names.size() == 1) return e.declared.models.front();
  if (names.empty()) e.error("E0207", Span{}, "the spec has no model").help("`model Name { ... }` declares one");
  else
    e.error("E0207", e.declared.models[1]->name.span, "the spec has {} models", names.size())
        .label(e.declared.models[0]->name.span, "the first")
        .help(fmt::format("choose one: `--model {}`", names.front()));
  return nullptr;
}

/// E0204 for blocks that are called like a function or an element type of the language.
void check_block_names(Elaboration& e) {
  for (const auto& [name, block] : e.declared.blocks)
    if (!functions_named(name).empty() || element_named(e, name))
      e.error("E0204", block->name.span, "block `{}` has the name of a built-in {}", name,
              element_named(e, name) ? "element type" : "function");
}

/// E0510: how many turns a step makes would depend on its numbers, and so would what backward has to keep.
void refuse_until(Elaboration& e) {
  if (!e.graph.objective) return;
  for (const Node& node : e.graph.nodes)
    if (std::holds_alternative<UntilOp>(node.op))
      e.error("E0510", node.span, "`until` in a model with `minimize`")
          .here("how many turns backward makes must be known")
          .label(e.graph.objective->span, "minimized here")
          .help("leave it out: the loop then makes every turn, and `where(done, h, next)` may keep what is reached");
}

/// With an objective, the first dim of the first input is the sample dim.
void find_sample_dim(Elaboration& e, const ast::Model& model) {
  if (!e.graph.objective) return;
  for (const Stored& stored : e.graph.stored) {
    if (stored.kind != StoredKind::input) continue;
    if (stored.type.dims.empty()) {
      e.error("E0506", stored.span, "the first input of a model with `minimize` has the samples along its first dim")
          .here("`{}` has no dims", stored.path);
      return;
    }
    e.graph.sample_dim = stored.type.dims.front();
    return;
  }
  const auto is_input = [](const ast::Statement& statement) {
    const auto* port = std::get_if<ast::Port>(&statement.node);
    return port && port->direction == ast::Port::Direction::input;
  };
  if (std::ranges::any_of(model.body, is_input)) return;  // one of which another error has told
  e.error("E0506", model.name.span, "a model with `minimize` needs an input")
      .help("`input x : real[batch, ...]`: its first dim is the sample dim");
}

}  // namespace

std::optional<Graph> elaborate(const SourceProgram& program, const SourceMap& sources, const ElaborateOptions& options,
                               DiagnosticSink& sink) {
  // What did not parse is missing from the tree: names that it binds would seem unknown.
  if (sink.has_errors()) return {};
  const Declarations declared = declarations_of(program, sink);
  Graph graph;
  graph.bodies.push_back({});
  Elaboration e(declared, sources, options, sink, graph);
  check_block_names(e);
  declare_globals(e);
  const ast::Model* model = choose_model(e);
  if (model == nullptr) return {};
  graph.model = model->name.text;
  DimScope dims;
  dims.owner = model->name.text;
  declare_body(e, dims, "", model->body, {});
  Frame frame;
  frame.dims = &dims;
  e.build.scope = "";
  statements(e, frame, model->body);
  results_of_model(e, frame, model->body);
  finish_updates(e);
  refuse_until(e);
  if (!sink.has_errors()) check_extents(e);
  find_sample_dim(e, *model);
  finish_wanted(e);
  if (!sink.has_errors()) widen_narrow_types(e);
  if (sink.has_errors()) return {};
  return graph;
}

}  // namespace mesh
