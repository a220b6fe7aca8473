// plan.cpp: `meshc plan SPEC`: what a training step will send, hold and cost, before anything runs.
#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "codegen/commands/command.h"
#include "codegen/commands/compare_plans.h"
#include "codegen/commands/page/page.h"
#include "codegen/commands/plan_all.h"
#include "codegen/commands/plan_report.h"
#include "codegen/commands/session.h"
#include "codegen/commands/write_file.h"
#include "frontend/lint_levels.h"

namespace mesh {

namespace {

struct PlanOptions {
  OutputOptions output;
  SpecOptions spec;
  bool all = false;
  std::string html;  // a file
};

using Json = nlohmann::ordered_json;

void print(const std::vector<Json>& plans, bool as_json, std::string (*table)(const std::vector<Json>&)) {
  if (as_json) fmt::print("{}\n", Json{{"schema", 1}, {"plans", plans}}.dump(2));
  else fmt::print("{}", table(plans));
}

/// The layouts that `--layout` names: "one,two".
std::vector<std::string> layouts_of(const SpecOptions& spec) {
  std::vector<std::string> names;
  std::istringstream given(spec.layout);
  for (std::string name; std::getline(given, name, ',');) names.push_back(name);
  return names;
}

/// A plan that breaks its budget is what one wants to see: it is given beside the errors.
std::optional<Compiled> compile_past_limits(Session& session) {
  session.request.past_limits = true;
  DiagnosticSink found = with_levels_of(session.sink);  // errors of another layout would stop this one
  std::optional<Compiled> compiled = compile(session.request, session.sources, found);
  for (Diagnostic& one : found.diagnostics()) session.sink.add(std::move(one));
  session.report();
  return compiled;
}

int side_by_side(Session& session, const std::vector<std::string>& layouts, bool as_json) {
  std::vector<Json> plans;
  for (const std::string& layout : layouts) {
    session.request.layout = layout;
    if (const std::optional<Compiled> compiled = compile_past_limits(session))
      plans.push_back(plan_json(*compiled, session.sources));
  }
  if (plans.size() == layouts.size()) print(plans, as_json, compared);
  return session.failed() ? exit_diagnostics : exit_ok;
}

int every_layout(const PlanOptions& options, Session& session) {
  if (!options.spec.layout.empty()) throw UsageError("--all plans every layout: leave --layout out");
  if (!options.spec.axes.empty())
    throw UsageError("--all plans every mesh of so many ranks: give `-n N` in place of --mesh");
  const std::vector<Json> plans = plan_all(session);
  if (session.failed()) return exit_diagnostics;
  if (plans.empty()) throw UsageError("the spec has no layout that --all could plan");
  print(plans, options.output.json, table_of_plans);
  const bool any = std::ranges::any_of(plans, [](const Json& plan) { return !plan.contains("error"); });
  return any ? exit_ok : exit_diagnostics;
}

int plan(const PlanOptions& options) {
  const std::vector<std::string> layouts = layouts_of(options.spec);
  if (!options.html.empty() && (options.all || layouts.size() > 1))
    throw UsageError("--html shows the plan of one layout: leave --all out, and name one --layout");
  Session session(options.spec, options.output);
  keep_read("--html", options.html, options.spec.arguments);
  if (options.all) return every_layout(options, session);
  if (layouts.size() > 1) return side_by_side(session, layouts, options.output.json);
  const std::optional<Compiled> compiled = compile_past_limits(session);
  if (compiled && !options.html.empty()) write_file(options.html, plan_page(session, *compiled));
  if (compiled && (options.html.empty() || options.output.json))
    fmt::print("{}", options.output.json ? plan_json(*compiled, session.sources).dump(2) + "\n"
                                         : plan_text(*compiled, session.sources));
  return session.failed() ? exit_diagnostics : exit_ok;
}

}  // namespace

Command plan_command() {
  return {
      "plan",
      "show every collective, its reason and bytes, and the memory of a rank",
      "The verdict first: the predicted time of a step on the machine (--machine, else a generic cluster), memory of\n"
      "the largest rank, the largest communication. Then every value with its placement and local shape, every\n"
      "collective of a training step with the reason for it, memory by kind, flops. Nothing is built or run.\n"
      "Then whether it fits (--memory 16GiB of a rank, or what the machine says of a host), and the layout's budget.\n"
      "With --all: a row for every layout of the file, the fastest first; with -n N also for every mesh of N ranks "
      "that\n"
      "has the layout's axes. Rows at the end say why they cannot be; warnings are left out. With --layout A,B: these\n"
      "layouts side by side.\n"
      "With --html: a page with all of that, and more: which rule would remove a collective, the tiles of each value\n"
      "and what brought them, memory over the step, the pipeline over time, the spec with what its lines send.",
      {{"meshc plan gpt.mesh --layout megatron", "under a layout of the spec"},
       {"meshc plan gpt.mesh --mesh data=16,model=8", "on a mesh of another size"},
       {"meshc plan gpt.mesh --all -n 8", "all layouts, on every mesh of 8 ranks"},
       {"meshc plan gpt.mesh --layout megatron,sequence", "two layouts side by side"},
       {"meshc plan gpt.mesh --memory 16GiB", "whether a rank fits"},
       {"meshc plan gpt.mesh --html plan.html", "a page for a browser, with reasons and pictures"},
       {"meshc plan gpt.mesh --json", "for programs"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<PlanOptions>();
        options->spec.declare(app, false);
        options->output.declare(app, true);
        app.add_flag("--all", options->all, "a table of all layouts (with -n N: and all their meshes of N ranks)");
        app.add_option("--html", options->html, "write one page that needs no network, and print nothing")
            ->type_name("FILE");
        app.get_option("--layout")
            ->description(
                "the layout (default: the one called default, else the only one); "
                "A,B,...: several side by side");
        return [options] { return plan(*options); };
      }};
}

}  // namespace mesh
