// run.cpp: `meshc run SPEC`: builds the program into a cache and starts its ranks on this host.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "codegen/commands/command.h"
#include "codegen/commands/compile_for_run.h"
#include "codegen/commands/emission.h"
#include "codegen/commands/session.h"
#include "codegen/commands/start.h"
#include "meshrt/failure.h"
#include "meshrt/run_file.h"

namespace mesh {

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
  if (!may_start(session, *compiled)) return exit_diagnostics;
  check_run_file(session, *compiled, options);
  std::vector<std::string> words;
  if (!options.run_folder.empty()) words.push_back("--run-dir=" + options.run_folder);
  if (options.dry_run) words.emplace_back("--dry-run");
  return start_program(session, options.spec, options.output, *compiled, {}, words);
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
