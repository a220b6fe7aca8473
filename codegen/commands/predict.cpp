// predict.cpp: `meshc predict SPEC NAME... --params CKPT --out DIR`: values of a model for every sample of its data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "codegen/commands/command.h"
#include "codegen/commands/compile_for_run.h"
#include "codegen/commands/model_options.h"
#include "codegen/commands/predicted.h"
#include "codegen/commands/session.h"
#include "codegen/commands/start.h"

namespace mesh {

namespace {

struct PredictOptions {
  OutputOptions output;
  SpecOptions spec;
  ModelOptions model;
  std::string out;
};

int predict(PredictOptions options) {
  const std::vector<std::string> names = options.spec.take_names();
  if (names.empty()) throw UsageError("nothing to predict: give names of values after the spec");
  if (options.out.empty()) throw UsageError("--out DIR is needed: where do the arrays go?");
  Session session(options.spec, options.output);
  session.request.entries = {predicted(names)};
  const std::optional<Compiled> compiled = session.compile();
  if (!compiled || !may_start(session, *compiled)) return exit_diagnostics;
  check_reads(session, *compiled, options.spec, options.model.files, meshrt::check_predicts);
  std::vector<std::string> words = options.model.words();
  words.push_back("--out=" + options.out);
  if (options.output.json) words.emplace_back("--json");
  return start_program(session, options.spec, options.output, *compiled, {meshrt::predict_entry}, words);
}

}  // namespace

Command predict_command() {
  return {
      "predict",
      "values of a trained model for every sample, as npy files",
      "NAME is a value of the spec (logits, layer.attn.score) that has the dim of samples; `*` stands for one part of "
      "a\n"
      "path, `**` for any number. DIR/NAME.npy has a row for every sample of `data`, in order; the file may be larger\n"
      "than memory. Nothing is trained: `training` is false, states are as they were saved. Only the inputs that the\n"
      "values need are read. Without --params it is the latest checkpoint of `checkpoint.dir`.",
      {{"meshc predict mlp.mesh logits --params out/ckpt data.image.file=new.npy --out out",
        "out/logits.npy, with a row for each picture of new.npy"},
       {"meshc predict mlp.mesh run.yaml h logits --params out/ckpt --out out -n 4", "two values, on four ranks"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<PredictOptions>();
        options->spec.declare(app, true);
        app.get_option("spec")->type_name("SPEC [LAYOUTS.mesh] [RUN.yaml] [KEY=VALUE...] NAME...")->description("");
        options->model.declare(app);
        app.add_option("--out", options->out, "the folder for the arrays")->type_name("DIR");
        options->output.declare(app, true);
        return [options] { return predict(*options); };
      }};
}

}  // namespace mesh
