// generate.cpp: `meshc generate SPEC --params CKPT --prompt TEXT`: what a trained model writes, by a program that is
// built for it or, under --interpret, by the interpreter.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "codegen/commands/command.h"
#include "codegen/commands/model_options.h"
#include "codegen/commands/session.h"
#include "codegen/commands/start.h"
#include "codegen/interpret/interpreted_program.h"
#include "meshrt/generation.h"
#include "meshrt/launch.h"
#include "meshrt/run_file.h"

namespace mesh {

namespace {

struct GenerateOptions {
  OutputOptions output;
  SpecOptions spec;
  ModelOptions model;
  meshrt::GenerateRequest request;
  bool interpret = false;
};

/// The dim that counts sequences; unset where there is one.
DimId batch_of(const Graph& graph) {
  for (const DimId dim : graph.stored[graph.generation->input.index].type.dims)
    if (dim != graph.generation->along) return dim;
  return {};
}

/// For as many sequences as there are prompts, at most for the batch of the spec: more go in rounds.
std::optional<Compiled> compile_for(Session& session, size_t prompts) {
  session.request.generate = true;
  std::optional<Compiled> compiled = session.compile();
  if (!compiled) return compiled;
  const Graph& graph = compiled->program.sharded.graph;
  const DimId batch = batch_of(graph);
  if (!batch || session.request.set.contains(graph.dim(batch).name) ||
      graph.dim(batch).size <= static_cast<int64_t>(prompts))
    return compiled;
  session.request.set[graph.dim(batch).name] = std::to_string(prompts);
  return session.compile();
}

int interpreted(const GenerateOptions& options, Session& session, const Compiled& compiled) {
  const meshrt::RunFile run =
      meshrt::read_run_file(options.spec.run_file(), options.spec.overrides(), meshrt::NamedFiles::may_lack);
  const auto ranks = static_cast<int>(compiled.sharded().layout.mesh.ranks());
  return meshrt::launch_threads(ranks, [&](meshrt::Rank& rank) {
    InterpretedProgram program(compiled.program, &session.sources);
    return meshrt::generate(rank, program, run, options.model.files, options.request, options.output.json, {});
  });
}

int generate(GenerateOptions options) {
  options.spec.allowed.emplace_back("idle_ranks");  // one prompt leaves ranks idle: who asks for it knows
  const std::vector<std::string> prompts = meshrt::prompts_of(options.request);
  Session session(options.spec, options.output);
  const std::optional<Compiled> compiled = compile_for(session, prompts.size());
  if (!compiled) return exit_diagnostics;
  if (options.interpret) return interpreted(options, session, *compiled);
  if (!may_start(session, *compiled)) return exit_diagnostics;
  std::vector<std::string> words = options.model.words();
  words.insert(words.end(), options.request.given.begin(), options.request.given.end());
  if (options.output.json) words.emplace_back("--json");
  return start_program(session, options.spec, options.output, *compiled, {meshrt::generate_entry}, words);
}

}  // namespace

Command generate_command() {
  return {
      "generate",
      "write on from a prompt with a trained model",
      "The spec says what is generated: `generate token along seq from logits`. One position is computed at a time;\n"
      "what later ones need of it is kept. Prompts of several lengths go on side by side, in rounds of the spec's\n"
      "batch. Text is read as the run file says of the input: by its tokenizer, else byte by byte. The same seed "
      "gives\n"
      "the same text under every layout. The program is built for it and kept, as that of `meshc run`.",
      {{"meshc generate gpt.mesh --params out/gpt --prompt 'In the beginning' --tokens 100", "from a checkpoint"},
       {"meshc generate gpt.mesh --params out/gpt -f prompts.txt --greedy --json", "a prompt on each line"},
       {"meshc generate gpt.mesh --params out/gpt --prompt 'And ' --temperature 0.8 --top-p 0.95 --seed 7",
        "less freely, and other text"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<GenerateOptions>();
        options->spec.declare(app, true);
        options->model.declare(app);
        for (const meshrt::GenerateOption& option : meshrt::generate_options()) {
          if (*option.type == '\0') {
            app.add_flag_function(
                option.name, [options, &option](int64_t) { set_option(options->request, option, ""); }, option.meaning);
            continue;
          }
          const auto take = [options, &option](const std::vector<std::string>& values) {
            for (const std::string& value : values) set_option(options->request, option, value);
            return true;
          };
          CLI::Option* added = app.add_option(option.name, CLI::callback_t(take), option.meaning);
          added->type_name(option.type)->allow_extra_args(false);
          if (option.repeats) added->take_all();
        }
        app.add_flag("--interpret", options->interpret, "build nothing: much slower, the same numbers");
        options->output.declare(app, true);
        return [options] { return generate(*options); };
      }};
}

}  // namespace mesh
