// explain.cpp: `meshc explain E0301`: what a diagnostic means; the texts are explain/*.md, built in. `meshc explain
// SPEC VALUE`: why a value lies as it does.
#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/commands/command.h"
#include "codegen/commands/explain_value.h"
#include "codegen/commands/explanations.h"
#include "frontend/diagnostic.h"

namespace mesh {

namespace {

using Json = nlohmann::ordered_json;

struct ExplainOptions {
  OutputOptions output;
  SpecOptions spec;
};

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(toupper(static_cast<unsigned char>(c)));
  return text;
}

/// UsageError for what is neither a code nor a lint.
Explanation explanation_of(const std::string& code) {
  const std::vector<Explanation> known = explanations();
  const auto lint = std::ranges::find(known_lints(), code, &Lint::name);
  const bool is_lint = lint != known_lints().end();
  const auto found = std::ranges::find(known, is_lint ? code : upper(code), &Explanation::code);
  if (!is_lint && found == known.end())
    throw UsageError(fmt::format("there is no diagnostic {}; `meshc explain` lists them", code));
  if (!is_lint) return *found;
  return {std::string(lint->name), std::string(lint->meaning),
          fmt::format("{}A lint. `-A {}` allows it, `-W` warns, `-D` makes it an error.",
                      found == known.end() ? "" : found->text + "\n\n", lint->name)};
}

std::vector<Explanation> all_titles() {
  std::vector<Explanation> titles;
  for (const Explanation& one : explanations())
    if (!one.title.empty()) titles.push_back(one);
  for (const Lint& lint : known_lints()) titles.push_back(explanation_of(std::string(lint.name)));
  return titles;
}

int explain(ExplainOptions& options) {
  const std::vector<std::string> codes = options.spec.take_names();
  if (!options.spec.arguments.empty()) return explain_values(options.spec, options.output, codes);
  std::vector<Explanation> told;
  told.reserve(codes.size());
  for (const std::string& code : codes) told.push_back(explanation_of(code));
  if (codes.empty()) told = all_titles();
  if (options.output.json) {
    Json listed = Json::array();
    for (const Explanation& one : told)
      listed.push_back({{"code", one.code}, {"title", one.title}, {"text", one.text}});
    fmt::print("{}\n", Json{{"schema", 1}, {"diagnostics", listed}}.dump(2));
    return exit_ok;
  }
  for (const Explanation& one : told) {
    if (codes.empty()) fmt::print("{}  {}\n", one.code, one.title);
    else fmt::print("{}: {}\n\n{}\n", one.code, one.title, one.text);
  }
  return exit_ok;
}

}  // namespace

Command explain_command() {
  return {
      "explain",
      "say what a diagnostic means, and what cures it; or why a value lies as it does",
      "Of a value: from which rules and values each of its axes comes, which ranks hold which part, and what a step\n"
      "would cost if it lay otherwise.",
      {{"meshc explain E0301", "the error E0301"},
       {"meshc explain idle_mesh_axis", "a lint"},
       {"meshc explain", "a list of all"},
       {"meshc explain gpt.mesh layer.attn.q", "a value of a spec"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<ExplainOptions>();
        options->spec.declare(app, false);
        options->output.declare(app, true);
        app.get_option("spec")
            ->required(false)
            ->description("codes of errors, names of lints; or a spec and names of its values")
            ->type_name("[CODE...] | SPEC VALUE...");
        return [options] { return explain(*options); };
      }};
}

}  // namespace mesh
