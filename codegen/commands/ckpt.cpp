// ckpt.cpp: `meshc ckpt ACTION`: looks at checkpoints and other safetensors files, without a spec.
#include "codegen/commands/ckpt.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "codegen/commands/command.h"

namespace mesh {

namespace {

struct CkptOptions {
  std::string action;
  std::vector<std::string> paths;
  Conversion conversion;
  bool json = false;
};

int run(const CkptOptions& options) {
  const bool convert = options.action == "convert";
  const size_t wanted = options.action == "diff" || convert ? 2 : 1;
  if (options.paths.size() < wanted || (options.paths.size() > wanted && !convert))
    throw UsageError("`meshc ckpt " + options.action + "` takes " +
                     (convert       ? "two paths or more, the last of which is written"
                      : wanted == 1 ? "one path"
                                    : "two paths"));
  const Conversion& given = options.conversion;
  if (options.action != "convert" && (!given.type.empty() || !given.names.empty() || given.parameters || given.mean))
    throw UsageError("--type, --names, --parameters and --mean belong to `meshc ckpt convert`");
  if (given.mean && options.paths.size() < 3)
    throw UsageError("--mean takes two checkpoints or more, and what is written");
  if (options.action == "ls") return list_checkpoints(options.paths[0], options.json);
  if (options.action == "show") return show_checkpoint(options.paths[0], options.json);
  if (options.action == "verify") return verify_checkpoints(options.paths[0], options.json);
  if (options.action == "diff") return compare_checkpoints(options.paths[0], options.paths[1], options.json);
  Conversion conversion = given;
  conversion.from.assign(options.paths.begin(), options.paths.end() - 1);
  conversion.to = options.paths.back();
  return convert_checkpoint(conversion, options.json);
}

}  // namespace

Command ckpt_command() {
  return {
      "ckpt",
      "list, show, compare, check and convert checkpoints",
      "ls DIR        the checkpoints of a run; exit code 1 when one is damaged or incomplete\n"
      "show PATH     the run that wrote it, and every tensor\n"
      "verify PATH   reads every number and compares hashes; of a run's folder, all checkpoints\n"
      "diff A B      which tensors differ, and by how much; exit code 1 when any does\n"
      "convert A B   to a checkpoint B, or to one file B.safetensors; warns of numbers that become infinite or 0 in a\n"
      "              smaller type; of several A, the parameters of all together, or their mean\n\n"
      "A PATH is a checkpoint, a run's folder of them (the latest is meant), a folder with a safetensors index, or a\n"
      "safetensors file.",
      {{"meshc ckpt ls out/ckpt", "what a run has written"},
       {"meshc ckpt show out/ckpt/step-500 --json", "tensors, types, shapes, files"},
       {"meshc ckpt diff out/ckpt/step-500 other/step-500", "what differs"},
       {"meshc ckpt convert out/ckpt gpt.safetensors --parameters --type bf16", "weights alone, half the size"},
       {"meshc ckpt convert out/ckpt/step-{400,450,500} mean.safetensors --mean", "the mean of the last three"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<CkptOptions>();
        app.add_option("action", options->action)
            ->type_name("ACTION")
            ->required()
            ->check(CLI::IsMember({"ls", "show", "verify", "diff", "convert"}));
        app.add_option("paths", options->paths)->type_name("PATH...")->required();
        app.add_option("--type", options->conversion.type,
                       "convert: write floats as this type; the optimizer's stay f32 where f16 is given")
            ->type_name("TYPE")
            ->check(CLI::IsMember({"f64", "f32", "bf16", "f16"}));
        app.add_option("--names", options->conversion.names,
                       "convert: a YAML map `ours: theirs`; what A calls as on its left, B calls as on its right")
            ->type_name("FILE");
        app.add_flag("--parameters", options->conversion.parameters, "convert: leave the optimizer's tensors out");
        app.add_flag("--mean", options->conversion.mean,
                     "convert: of several A of one model, the mean of each parameter and state; without the optimizer");
        app.add_flag("--json", options->json, "print one JSON object");
        return [options] { return run(*options); };
      }};
}

}  // namespace mesh
