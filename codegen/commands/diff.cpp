// diff.cpp: `meshc diff SPEC --layout A --layout B`: what changes from one layout to another, by value and line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/commands/command.h"
#include "codegen/commands/compare_plans.h"
#include "codegen/commands/plan_report.h"
#include "codegen/commands/session.h"

namespace mesh {

namespace {

struct DiffOptions {
  OutputOptions output;
  SpecOptions spec;
  std::vector<std::string> layouts;
};

int diff(const DiffOptions& options) {
  if (options.layouts.size() != 2) throw UsageError("two layouts are compared: `--layout A --layout B`");
  Session session(options.spec, options.output);
  std::vector<nlohmann::ordered_json> plans;
  for (const std::string& layout : options.layouts) {
    session.request.layout = layout;
    const std::optional<Compiled> compiled = session.compile();
    if (!compiled) return exit_diagnostics;
    plans.push_back(plan_json(*compiled, session.sources));
  }
  if (options.output.json) fmt::print("{}\n", changes_json(plans[0], plans[1]).dump(2));
  else fmt::print("{}", changes_between(plans[0], plans[1]));
  return exit_ok;
}

}  // namespace

Command diff_command() {
  return {
      "diff",
      "show what changes from one layout to another",
      "Time, bytes and memory of a step under both; then every collective and every value that is not the same, with\n"
      "its line, those that change most first. `meshc plan --layout A,B,...` puts whole plans side by side.",
      {{"meshc diff gpt.mesh --layout megatron --layout sequence", "two layouts of the spec"},
       {"meshc diff gpt.mesh more.mesh --layout megatron --layout other", "one of another file"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<DiffOptions>();
        options->spec.declare(app, false);
        options->output.declare(app, true);
        app.remove_option(app.get_option("--layout"));
        app.add_option("--layout", options->layouts, "the layout before, and the one after")
            ->type_name("NAME")
            ->take_all()
            ->allow_extra_args(false);
        return [options] { return diff(*options); };
      }};
}

}  // namespace mesh
