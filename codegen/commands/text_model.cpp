#include "codegen/commands/text_model.h"

#include <algorithm>
#include <CLI/CLI.hpp>

#include "codegen/commands/command.h"
#include "codegen/commands/start.h"
#include "codegen/generation/generation_entries.h"
#include "codegen/interpret/interpret.h"
#include "codegen/interpret/interpreted_program.h"
#include "meshrt/launch.h"
#include "meshrt/run_file.h"

namespace mesh {

namespace {

std::optional<Compiled> compile_for(Session& session, size_t texts, size_t width) {
  session.request.generate = true;
  std::optional<Compiled> compiled = session.compile();
  if (!compiled) return compiled;
  const Graph& graph = compiled->program.sharded.graph;
  const DimId batch = batch_of(graph);
  if (!batch || session.request.set.contains(graph.dim(batch).name)) return compiled;
  const auto most = static_cast<size_t>(graph.dim(batch).size);
  const size_t sequences = std::min(texts, std::max<size_t>(1, most / width)) * width;
  if (sequences == most) return compiled;
  session.request.set[graph.dim(batch).name] = std::to_string(sequences);
  return session.compile();
}

}  // namespace

void TextModel::declare(CLI::App& app, std::span<const meshrt::GenerateOption> options) {
  spec_.declare(app, true);
  model_.declare(app);
  for (const meshrt::GenerateOption& option : options) {
    if (*option.type == '\0') {
      app.add_flag_function(
          option.name, [this, &option](int64_t) { set_option(request, option, ""); }, option.meaning);
      continue;
    }
    const auto take = [this, &option](const std::vector<std::string>& values) {
      for (const std::string& value : values) set_option(request, option, value);
      return true;
    };
    CLI::Option* added = app.add_option(option.name, CLI::callback_t(take), option.meaning);
    added->type_name(option.type)->allow_extra_args(false);
    if (option.repeats) added->take_all();
  }
  app.add_flag("--interpret", interpret_, "build nothing: much slower, the same numbers");
  output_.declare(app, true);
}

int TextModel::start(const char* word, Run run, size_t texts, size_t width, Check check) {
  spec_.allowed.emplace_back("idle_ranks");  // one text leaves ranks idle: who asks for it knows
  Session session(spec_, output_);
  const std::optional<Compiled> compiled = compile_for(session, texts, width);
  if (!compiled) return exit_diagnostics;
  const meshrt::RunFile file = meshrt::read_run_file(spec_.run_file(), spec_.overrides(), meshrt::NamedFiles::may_lack);
  if (check != nullptr)
    check(program_info(compiled->program, &session.sources), tensors_of_rank(compiled->program, &session.sources, 0),
          file, request);
  if (interpret_) {
    const auto ranks = static_cast<int>(compiled->sharded().layout.mesh.ranks());
    return meshrt::launch_threads(ranks, [&](meshrt::Rank& rank) {
      InterpretedProgram program(compiled->program, &session.sources);
      return run(rank, program, file, model_.files, request, output_.json, {});
    });
  }
  if (!may_start(session, *compiled)) return exit_diagnostics;
  std::vector<std::string> words = model_.words();
  words.insert(words.end(), request.given.begin(), request.given.end());
  if (output_.json) words.emplace_back("--json");
  return start_program(session, spec_, output_, *compiled, {word}, words);
}

}  // namespace mesh
