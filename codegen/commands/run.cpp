// run.cpp: `meshc run SPEC`: builds the program into a cache and starts its ranks on this host.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <CLI/CLI.hpp>
#include <cstring>
#include <filesystem>
#include <memory>

#include "codegen/commands/command.h"
#include "codegen/commands/compile_for_run.h"
#include "codegen/commands/emission.h"
#include "codegen/commands/program_cache.h"
#include "codegen/commands/session.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"
#include "meshrt/run_file.h"

namespace mesh {

namespace fs = std::filesystem;

namespace {

struct RunOptions {
  OutputOptions output;
  SpecOptions spec;
  bool dry_run = false;
  std::string run_folder;
};

/// Tells what is wrong with the run file before anything is compiled.
void check_run_file(const Session& session, const Compiled& compiled, const RunOptions& options) {
  const std::string path = options.spec.run_file();
  const meshrt::RunFile run = meshrt::read_run_file(path, options.spec.overrides());
  if (!options.dry_run && path.empty() && !run.train.steps.given())
    throw meshrt::Failure(
        meshrt::Cause::data,
        fmt::format("there is no run file: write {0}.yaml beside the spec, or give one on the command "
                    "line, with `data:` for every input and `train: {{ steps: 1000 }}`",
                    program_name(options.spec)));
  if (!options.dry_run || !run.data.empty()) check_fits(session, compiled, run, meshrt::NamedFiles::must_exist);
  if (!options.dry_run) meshrt::require_steps(run);
}

int run(const RunOptions& options) {
  Session session(options.spec, options.output);
  const std::optional<Compiled> compiled = compile_for_run(session, options.spec);
  if (!compiled) return exit_diagnostics;
  const int64_t ranks = compiled->sharded().layout.mesh.ranks();
  meshrt::require_cpus(ranks);
  if (const int cores = meshrt::allowed_cores(); ranks > cores) {
    session.sink.lint("oversubscribed", {}, "{} ranks, but this machine has {} cores", ranks, cores);
    session.report();
    if (session.failed()) return exit_diagnostics;
  }
  check_run_file(session, *compiled, options);
  const std::string name = program_name(options.spec);
  const std::optional<fs::path> program =
      cached_program(name, emitted_text(session, options.spec, *compiled), texts_of_run(session, *compiled));
  if (!program) return exit_interrupted;

  std::vector<std::string> command{program->string()};
  if (const std::string run_file = options.spec.run_file(); !run_file.empty()) command.push_back(run_file);
  for (const std::string& one : options.spec.overrides()) command.push_back(one);
  if (ranks > 1) command.insert(command.end(), {"-n", std::to_string(ranks)});
  if (options.output.color != "auto") command.push_back("--color=" + options.output.color);
  if (!options.run_folder.empty()) command.push_back("--run-dir=" + options.run_folder);
  if (options.dry_run) command.emplace_back("--dry-run");
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& one : command) arguments.push_back(one.data());
  arguments.push_back(nullptr);
  execv(arguments.front(), arguments.data());
  throw meshrt::Failure(meshrt::Cause::environment,
                        fmt::format("cannot start {}: {}", command.front(), std::strerror(errno)));
}

}  // namespace

Command run_command() {
  return {
      "run",
      "build a spec's program and start its ranks on this host",
      "The run file says which data to train on and for how long; without one on the command line it is the file "
      "beside\n"
      "the spec with the same stem. Programs are kept in $XDG_CACHE_HOME/meshwright (else ~/.cache/meshwright), the\n"
      "hundred that were used last.",
      {{"meshc run gpt.mesh", "with gpt.yaml, under the default layout"},
       {"meshc run gpt.mesh --mesh data=2", "two ranks of the layout's mesh"},
       {"meshc run gpt.mesh big.yaml train.steps=100", "another run file, one key changed"},
       {"meshc run gpt.mesh more_layouts.mesh --layout sequence", "a layout of a second file"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<RunOptions>();
        options->spec.declare(app, true);
        app.add_flag("--dry-run", options->dry_run, "start, allocate, one all-reduce, the first batch; no training");
        app.add_option(
               "--run-dir", options->run_folder,
               "the folder of this run (default: runs/NAME-0001 and so on); none: no folder; what an earlier run has "
               "left there is moved to DIR/earlier-0001")
            ->type_name("DIR");
        options->output.declare(app, false);
        return [options] { return run(*options); };
      }};
}

}  // namespace mesh
