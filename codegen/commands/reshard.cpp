// reshard.cpp: `meshc reshard`: how one tensor comes from one placement to another, without a spec.
#include "codegen/layout/reshard.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/commands/command.h"
#include "codegen/commands/enumerator.h"
#include "codegen/commands/options.h"
#include "codegen/commands/plan_report.h"
#include "codegen/commands/reshard_question.h"
#include "codegen/commands/session.h"
#include "codegen/commands/table.h"
#include "codegen/layout/least_bytes.h"
#include "meshrt/log.h"

namespace mesh {

namespace {

struct ReshardOptions {
  ReshardArguments arguments;
  std::string machine;
  OutputOptions output;
};

using Json = nlohmann::ordered_json;

struct Answer {
  const ReshardQuestion& asked;
  const Machine& machine;
  const ReshardPath& path;
  int64_t bytes, least;
  std::string lies(const Placement& placement) const {
    return to_string(asked.graph, asked.mesh, asked.type, placement);
  }
};

Json names_of(const MeshShape& mesh, const std::vector<AxisId>& axes) {
  Json names = Json::array();
  for (const AxisId axis : axes) names.push_back(mesh.axes[axis].name);
  return names;
}

std::string answer_json(const Answer& answer) {
  const ReshardQuestion& asked = answer.asked;
  const auto dim = [&](int at) {
    return at < 0 ? Json() : Json(asked.graph.dim(asked.type.dims[static_cast<size_t>(at)]).name);
  };
  Json steps = Json::array();
  for (size_t i = 0; i < answer.path.steps.size(); ++i) {
    const ReshardStep& step = answer.path.steps[i];
    Json placement = Json::object(), owns = Json::object();
    for (size_t d = 0; d < asked.type.dims.size(); ++d) {
      const DimPlacement& split = answer.path.placements[i].dims[d];
      placement[asked.graph.dim(asked.type.dims[d]).name] = names_of(asked.mesh, split.axes);
      if (split.deal) owns[asked.graph.dim(asked.type.dims[d]).name] = meshrt::to_text(split.deal);
    }
    steps.push_back({{"kind", name_of(step.kind)},
                     {"axes", names_of(asked.mesh, step.axes)},
                     {"to_axes", names_of(asked.mesh, step.to_axes)},
                     {"dim", dim(step.from_dim)},
                     {"to_dim", dim(step.to_dim)},
                     {"group_size", asked.mesh.size(step.axes)},
                     {"bytes", step.bytes},
                     {"seconds", step.seconds},
                     {"placement", placement}});
    if (!owns.empty()) steps.back()["owns"] = owns;
  }
  return Json({{"schema", 1},
               {"machine", answer.machine.name},
               {"steps", steps},
               {"seconds", answer.path.seconds},
               {"bytes", answer.bytes},
               {"lower_bound_bytes", answer.least}})
             .dump(2) +
         "\n";
}

std::string answer_text(const Answer& answer) {
  const ReshardQuestion& asked = answer.asked;
  if (answer.path.steps.empty()) return fmt::format("{}: nothing is moved.\n", answer.lies(asked.from));
  std::vector<std::vector<std::string>> rows{{"step", "over", "ranks", "each sends", "takes", "then it lies as"},
                                             {"", "", "", "", "", answer.lies(asked.from)}};
  for (size_t i = 0; i < answer.path.steps.size(); ++i) {
    const ReshardStep& step = answer.path.steps[i];
    std::string over = axes_text(asked.mesh, step.axes);
    if (!step.to_axes.empty()) over += " to " + axes_text(asked.mesh, step.to_axes);
    rows.push_back({name_of(step.kind), over, std::to_string(asked.mesh.size(step.axes)),
                    meshrt::bytes_text(step.bytes), time_text(step.seconds), answer.lies(answer.path.placements[i])});
  }
  return fmt::format(
      "{}\nThe rank that sends most sends {} in {} on machine {}; no way of moving sends less than {}.\n",
      in_columns(rows), meshrt::bytes_text(answer.bytes), time_text(answer.path.seconds), answer.machine.name,
      meshrt::bytes_text(answer.least));
}

int reshard(const ReshardOptions& options) {
  Session session(options.output);
  const auto asked = read_question(options.arguments, session.sources, session.sink);
  const auto machine =
      options.machine.empty() ? Machine{} : read_machine(options.machine, session.sources, session.sink);
  session.report();
  if (!asked || !machine) return exit_diagnostics;
  ReshardPlanner planner(asked->graph, asked->mesh, *machine);
  const std::optional<ReshardPath>& path = planner.plan(asked->type, asked->from, asked->to);
  int64_t bytes = 0;
  for (const ReshardStep& step : path->steps) bytes += step.bytes;
  const Answer answer{*asked, *machine, *path, bytes,
                      least_bytes(asked->graph, asked->mesh, asked->type, asked->from, asked->to)};
  fmt::print("{}", options.output.json ? answer_json(answer) : answer_text(answer));
  return exit_ok;
}

}  // namespace

Command reshard_command() {
  return {"reshard",
          "show how one tensor comes from one placement to another",
          "Placements are written as rules of a layout, apart by `;`: `a -> x * y`, `partial x` where a sum over the\n"
          "ranks of an axis is pending, `none` for a whole tensor. A dim without a rule is whole. The way is the one\n"
          "that takes least time on the machine (--machine, else a generic cluster), as a compiled program takes it.",
          {{R"(meshc reshard --mesh x=4,y=2 --shape a=16,b=16 --from "a -> x * y" --to "a -> y * x")",
            "the same parts on other ranks"},
           {R"(meshc reshard --mesh x=4 --shape a=16,b=16 --from "a -> x" --to "b -> x" --json)", "for programs"},
           {R"(meshc reshard --mesh x=4 --shape a=16 --from "partial x" --to none)", "a sum that is completed"}},
          [](CLI::App& app) -> std::function<int()> {
            auto options = std::make_shared<ReshardOptions>();
            ReshardArguments& asked = options->arguments;
            app.add_option("--mesh", asked.mesh, "the axes of the mesh and their sizes")
                ->required()
                ->type_name("AXIS=N,...");
            app.add_option("--shape", asked.shape, "the dims of the tensor and their sizes")
                ->required()
                ->type_name("DIM=N,...");
            app.add_option("--from", asked.from, "how it lies")->required()->type_name("RULES");
            app.add_option("--to", asked.to, "how it is needed")->required()->type_name("RULES");
            app.add_option("--type", asked.type, "the type of an element (default f32)")
                ->transform(enumerator_of<Type>(
                    {{"f32", Type::f32}, {"f64", Type::f64}, {"bf16", Type::bf16}, {"f16", Type::f16}}))
                ->type_name("f32|f64|bf16|f16");
            app.add_option("--machine", options->machine, "machine description whose costs decide the way")
                ->type_name("FILE");
            options->output.declare(app, true);
            return [options] { return reshard(*options); };
          }};
}

}  // namespace mesh
