// plan.cpp: `meshc plan SPEC`: what a training step will send, hold and cost, before anything runs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "codegen/commands/command.h"
#include "codegen/commands/plan_report.h"
#include "codegen/commands/session.h"

namespace mesh {

namespace {

struct Options {
  OutputOptions output;
  SpecOptions spec;
};

int plan(const Options& options) {
  Session session(options.spec, options.output);
  const std::optional<Compiled> compiled = session.compile();
  if (!compiled) return exit_diagnostics;
  fmt::print("{}", options.output.json ? plan_json(*compiled, session.sources) : plan_text(*compiled, session.sources));
  return exit_ok;
}

}  // namespace

Command plan_command() {
  return {
      "plan",
      "show every collective, its reason and bytes, and the memory of a rank",
      "The verdict first: the predicted time of a step on the machine (--machine, else a generic cluster), memory of\n"
      "the largest rank, the largest communication. Then every value with its placement and local shape, every\n"
      "collective of a training step with the reason for it, memory by kind, flops. Nothing is built or run.",
      {{"meshc plan gpt.mesh --layout megatron", "under a layout of the spec"},
       {"meshc plan gpt.mesh --mesh data=16,model=8", "on a mesh of another size"},
       {"meshc plan gpt.mesh --json", "for programs"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<Options>();
        options->spec.declare(app, false);
        options->output.declare(app, true);
        return [options] { return plan(*options); };
      }};
}

}  // namespace mesh
