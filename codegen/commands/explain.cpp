// explain.cpp: `meshc explain E0301`: what a diagnostic means; the texts are explain/*.md, built in. `meshc explain
// SPEC VALUE`: why a value lies as it does.
#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <memory>

#include "codegen/commands/command.h"
#include "codegen/commands/explain_value.h"
#include "codegen/commands/explanations.h"
#include "frontend/diagnostic.h"

namespace mesh {

namespace {

struct ExplainOptions {
  OutputOptions output;
  SpecOptions spec;
};

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(toupper(static_cast<unsigned char>(c)));
  return text;
}

int explain(ExplainOptions& options) {
  const std::vector<std::string> codes = options.spec.take_names();
  if (!options.spec.arguments.empty()) return explain_values(options.spec, options.output, codes);
  if (codes.empty()) {
    for (const Explanation& one : explanations())
      if (!one.title.empty()) fmt::print("{}  {}\n", one.code, one.title);
    for (const Lint& lint : known_lints()) fmt::print("{}: {}\n", lint.name, lint.meaning);
    return exit_ok;
  }
  for (const std::string& code : codes) {
    const std::vector<Explanation> known = explanations();
    const auto lint = std::ranges::find(known_lints(), code, &Lint::name);
    const bool is_lint = lint != known_lints().end();
    const auto found = std::ranges::find(known, is_lint ? code : upper(code), &Explanation::code);
    if (found != known.end() && !is_lint) {
      fmt::print("{}: {}\n\n{}\n", found->code, found->title, found->text);
    } else if (is_lint) {
      fmt::print("{}: {}\n\n{}A lint. `-A {}` allows it, `-W` warns, `-D` makes it an error.\n", lint->name,
                 lint->meaning, found == known.end() ? "" : found->text + "\n\n", lint->name);
    } else {
      throw UsageError(fmt::format("there is no diagnostic {}; `meshc explain` lists them", code));
    }
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
        options->output.declare(app, false);
        app.get_option("spec")
            ->required(false)
            ->description("codes of errors, names of lints; or a spec and names of its values")
            ->type_name("[CODE...] | SPEC VALUE...");
        return [options] { return explain(*options); };
      }};
}

}  // namespace mesh
