// evaluate.cpp: `meshc evaluate SPEC --params CKPT`: the metrics of a model over an evaluation set, by the program that
// `meshc run` trains with.
#include <CLI/CLI.hpp>
#include <memory>

#include "codegen/commands/command.h"
#include "codegen/commands/compile_for_run.h"
#include "codegen/commands/model_options.h"
#include "codegen/commands/session.h"
#include "codegen/commands/start.h"

namespace mesh {

namespace {

struct EvaluateOptions {
  OutputOptions output;
  SpecOptions spec;
  ModelOptions model;
};

int evaluate(const EvaluateOptions& options) {
  Session session(options.spec, options.output);
  const std::optional<Compiled> compiled = compile_for_run(session, options.spec);
  if (!compiled || !may_start(session, *compiled)) return exit_diagnostics;
  check_reads(session, *compiled, options.spec, options.model.files, meshrt::check_evaluates);
  std::vector<std::string> words = options.model.words();
  if (options.output.json) words.emplace_back("--json");
  return start_program(session, options.spec, options.output, *compiled, {"evaluate"}, words);
}

}  // namespace

Command evaluate_command() {
  return {
      "evaluate",
      "metrics of a trained model over an evaluation set",
      "Nothing is trained: `training` is false, states are as they were saved. Read is what the run file names\n"
      "`validation`: its `steps`, else all of it once, whatever is left of the last batch included. Where it names\n"
      "none, or the command line names a file of `data`, that is read once through. Without --params it is the\n"
      "latest checkpoint of `checkpoint.dir`.",
      {{"meshc evaluate mlp.mesh --params out/ckpt", "over the `validation` of mlp.yaml"},
       {"meshc evaluate mlp.mesh --params out/ckpt/step-500 data.image.file=x.npy data.label.file=y.npy",
        "over other files"},
       {"meshc evaluate gpt2.mesh --params model.safetensors --names gpt2.names.yaml --json",
        "weights of another origin; JSON"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<EvaluateOptions>();
        options->spec.declare(app, true);
        options->model.declare(app);
        options->output.declare(app, true);
        return [options] { return evaluate(*options); };
      }};
}

}  // namespace mesh
