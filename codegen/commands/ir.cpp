// ir.cpp: `meshc ir SPEC PASS`: what the compiler holds after a pass, as text.
#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <memory>

#include "codegen/commands/command.h"
#include "codegen/commands/emission.h"
#include "codegen/commands/session.h"

namespace mesh {

namespace {

constexpr const char* cpp_pass = "cpp";

struct IrOptions {
  OutputOptions output;
  SpecOptions spec;
};

bool is_pass(const std::string& name) {
  return name == cpp_pass ||
         std::ranges::find(pass_names(), name, &std::pair<std::string, std::string>::first) != pass_names().end();
}

std::string list_of_passes() {
  std::string text;
  for (const auto& [name, meaning] : pass_names()) text += fmt::format("  {:<16}{}\n", name, meaning);
  return text + fmt::format("  {:<16}{}", cpp_pass, "the emitted program");
}

int show(IrOptions options) {
  // The pass is the argument that is no file.
  std::string pass;
  for (const std::string& argument : options.spec.arguments)
    if (is_pass(argument)) pass = argument;
  if (pass.empty())
    throw UsageError(fmt::format("no pass given, or one that does not exist; the passes are:\n{}", list_of_passes()));
  std::erase(options.spec.arguments, pass);
  Session session(options.spec, options.output);
  if (pass == cpp_pass) {
    const std::optional<Compiled> compiled = session.compile();
    if (!compiled) return exit_diagnostics;
    fmt::print("{}", emitted_text(session, options.spec, *compiled));
    return exit_ok;
  }
  session.request.stop_after = pass;
  session.request.dump = [&](const std::string& name, const std::string& text) {
    if (name == pass) fmt::print("{}{}", text, text.ends_with('\n') ? "" : "\n");
  };
  session.compile();
  return session.failed() ? exit_diagnostics : exit_ok;
}

}  // namespace

Command ir_command() {
  return {"ir",
          "show what the compiler holds after a pass",
          "Passes:\n" + list_of_passes(),
          {{"meshc ir gpt.mesh sharded", "every value with its placement"},
           {"meshc ir gpt.mesh cpp --mesh data=2", "the emitted program"}},
          [](CLI::App& app) -> std::function<int()> {
            auto options = std::make_shared<IrOptions>();
            options->spec.declare(app, false);
            app.get_option("spec")->type_name("SPEC [LAYOUTS.mesh] PASS");
            options->output.declare(app, false);
            return [options] { return show(*options); };
          }};
}

}  // namespace mesh
