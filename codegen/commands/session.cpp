#include "codegen/commands/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <set>
#include <string>

#include "codegen/commands/command.h"
#include "frontend/lint_levels.h"
#include "frontend/render.h"

namespace mesh {

Session::Session(const SpecOptions& spec, const OutputOptions& output) : request(spec.request()), output_(output) {
  const auto set = [&](const std::vector<std::string>& lints, LintLevel level) {
    for (const std::string& lint : lints) {
      if (sink.set_lint_level(lint, level)) continue;
      std::string known;
      for (const Lint& one : known_lints()) known += fmt::format("\n  {:<20} {}", one.name, one.meaning);
      throw UsageError(fmt::format("there is no lint called {}; the lints are:{}", lint, known));
    }
  };
  set(spec.warned, LintLevel::warn);
  set(spec.allowed, LintLevel::allow);
  set(spec.denied, LintLevel::deny);
}

std::optional<Compiled> Session::compile() {
  std::optional<Compiled> compiled = mesh::compile(request, sources, sink);
  report();
  if (failed()) return std::nullopt;
  return compiled;
}

std::optional<Compiled> Session::quietly(const CompileRequest& other) {
  DiagnosticSink unheard = with_levels_of(sink);
  return mesh::compile(other, sources, unheard);
}

void Session::report() {
  static std::set<std::string> told;  // by this process: a command may compile a spec several times
  DiagnosticSink news;
  for (const Diagnostic& one : sink.diagnostics()) {
    const std::string text = render_json(one, sources);
    if (!told.insert(text).second) continue;
    if (output_.diagnostics == "json") fmt::print(stderr, "{}\n", text);
    else news.add(one);
  }
  if (news.diagnostics().empty()) return;
  RenderOptions options;
  options.colour = output_.colored(STDERR_FILENO);
  fmt::print(stderr, "{}", render_all(news, sources, options));
}

}  // namespace mesh
