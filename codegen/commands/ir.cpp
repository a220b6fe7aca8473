// ir.cpp: `meshc ir SPEC PASS`: what the compiler holds after a pass, as text.
#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "codegen/commands/command.h"
#include "codegen/commands/emission.h"
#include "codegen/commands/session.h"

namespace mesh {

namespace {

constexpr const char* cpp_pass = "cpp";

struct IrOptions {
  std::optional<std::string> entry;
  OutputOptions output;
  SpecOptions spec;
};

bool is_pass(const std::string& name) {
  const auto passes = pass_names();
  return name == cpp_pass || std::ranges::find(passes, name, &decltype(passes)::value_type::first) != passes.end();
}

std::string list_of_passes() {
  std::string text;
  for (const auto& [name, meaning] : pass_names()) text += fmt::format("  {:<16}{}\n", name, meaning);
  return text + fmt::format("  {:<16}{}", cpp_pass, "the emitted program");
}

/// UsageError where the program has no such entry.
void require_entry(const Compiled& compiled, const std::string& name) {
  std::string known;
  for (const Entry& entry : compiled.entries) {
    if (entry.name == name) return;
    known += (known.empty() ? "" : ", ") + entry.name;
  }
  throw UsageError(fmt::format("the program has no entry `{}`; its entries are: {}", name, known));
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
  const std::string wanted = options.entry.value_or("train");
  session.request.generate = wanted.starts_with("generate");  // a program of its own
  if (pass == cpp_pass) {
    const std::optional<Compiled> compiled = session.compile();
    if (!compiled) return exit_diagnostics;
    if (options.entry) require_entry(*compiled, wanted);
    fmt::print("{}", emitted_text(session, options.spec, *compiled));
    return exit_ok;
  }
  session.request.stop_after = pass;
  session.request.stop_entry = wanted;
  std::string found, of_entry;
  session.request.dump = [&](const std::string& entry, const std::string& name, const std::string& text) {
    if (name != pass || (!entry.empty() && entry != wanted)) return;
    found = text;
    of_entry = entry;
  };
  const std::optional<Compiled> compiled = session.compile();
  if (!session.failed() && options.entry) {
    // A compilation that goes to the end has all entries; one that stops has met what is wanted, or has none yet.
    if (compiled) require_entry(*compiled, wanted);
    else if (of_entry.empty())
      throw UsageError(fmt::format("`{}` is of the whole spec, which has no entries yet: leave `--entry` out", pass));
  }
  if (!found.empty()) fmt::print("{}{}", found, found.ends_with('\n') ? "" : "\n");
  return session.failed() ? exit_diagnostics : exit_ok;
}

}  // namespace

Command ir_command() {
  return {
      "ir",
      "show what the compiler holds after a pass",
      "Passes:\n" + list_of_passes(),
      {{"meshc ir gpt.mesh sharded", "every value with its placement"},
       {"meshc ir gpt.mesh sharded --entry evaluate", "the same of an evaluation"},
       {"meshc ir gpt.mesh cpp --mesh data=2", "the emitted program"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<IrOptions>();
        options->spec.declare(app, false);
        app.get_option("spec")->type_name("SPEC [LAYOUTS.mesh] PASS");
        app.add_option(
               "--entry", options->entry,
               "train (default), evaluate, generate (generate.prompt, .begin, .beams), or begin.STATE for what a state "
               "begins as")
            ->type_name("NAME");
        options->output.declare(app, false);
        return [options] { return show(*options); };
      }};
}

}  // namespace mesh
