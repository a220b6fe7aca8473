// explain.cpp: `meshc explain E0301`: what a diagnostic means. The texts are explain/*.md, built in.
#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <memory>

#include "codegen/commands/command.h"
#include "codegen/commands/explanations.h"
#include "frontend/diagnostic.h"

namespace mesh {

namespace {

struct ExplainOptions {
  std::vector<std::string> codes;
};

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(toupper(static_cast<unsigned char>(c)));
  return text;
}

int explain(const ExplainOptions& options) {
  if (options.codes.empty()) {
    for (const Explanation& one : explanations())
      if (!one.title.empty()) fmt::print("{}  {}\n", one.code, one.title);
    for (const Lint& lint : known_lints()) fmt::print("{}: {}\n", lint.name, lint.meaning);
    return exit_ok;
  }
  for (const std::string& code : options.codes) {
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
  return {"explain",
          "say what a diagnostic means, and what cures it",
          "",
          {{"meshc explain E0301", "the error E0301"},
           {"meshc explain idle_mesh_axis", "a lint"},
           {"meshc explain", "a list of all"}},
          [](CLI::App& app) -> std::function<int()> {
            auto options = std::make_shared<ExplainOptions>();
            app.add_option("code", options->codes, "codes of errors, names of lints")->type_name("[CODE...]");
            return [options] { return explain(*options); };
          }};
}

}  // namespace mesh
