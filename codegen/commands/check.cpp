// check.cpp: `meshc check SPEC`: is the spec right, under the chosen layout? Nothing is written.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/check_rest.h"
#include "codegen/commands/command.h"
#include "codegen/commands/session.h"
#include "frontend/render.h"

namespace mesh {

namespace {

using Json = nlohmann::ordered_json;

struct CheckOptions {
  OutputOptions output;
  SpecOptions spec;
};

int check(const CheckOptions& options) {
  Session session(options.spec, options.output);
  choose_first(session.request, session.sources);
  compile(session.request, session.sources, session.sink);
  check_rest(session.request, session.sources, session.sink);
  session.report();
  if (options.output.json) {
    Json found = Json::array();
    for (const Diagnostic& one : session.sink.diagnostics()) found.push_back(diagnostic_json(one, session.sources));
    const Json result = {{"schema", 1}, {"ok", !session.failed()}, {"diagnostics", found}};
    fmt::print("{}\n", result.dump(2, ' ', false, Json::error_handler_t::replace));
  }
  return session.failed() ? exit_diagnostics : exit_ok;
}

}  // namespace

Command check_command() {
  return {"check",
          "say what is wrong with a spec",
          "Compiles the spec under each of its layouts, as far as `plan` does: names, sizes, types and placements.\n"
          "Of other models and layouts than the chosen ones, constructs that are not built yet are warnings.\n"
          "Exit code 0: no errors; 1: errors, on stderr.",
          {{"meshc check gpt.mesh", "the spec and its default layout"},
           {"meshc check gpt.mesh --layout megatron", "under another layout"},
           {"meshc check gpt.mesh -D idle_mesh_axis", "a lint as an error"}},
          [](CLI::App& app) -> std::function<int()> {
            auto options = std::make_shared<CheckOptions>();
            options->spec.declare(app, false);
            options->output.declare(app, true);
            return [options] { return check(*options); };
          }};
}

}  // namespace mesh
