// bench.cpp: `meshc bench SPEC`: where the time of a step goes on this machine, and what would make it shorter.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "codegen/commands/bench/report.h"
#include "codegen/commands/bench/trial_input.h"
#include "codegen/commands/command.h"
#include "codegen/commands/compile_for_run.h"
#include "codegen/commands/emission.h"
#include "codegen/commands/start.h"
#include "codegen/emit/child_process.h"
#include "codegen/program/exposed.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"

namespace mesh {

namespace {

struct BenchOptions {
  OutputOptions output;
  SpecOptions spec;
  int64_t steps = 20;
  bool random = false;
};

/// A description of this machine, by `meshc machine --measure`. Empty where the user ended it.
std::string measured_machine(int64_t ranks, const ScratchFolder& scratch) {
  fmt::print(stderr, "measuring this machine with {} rank{}\n", ranks, ranks == 1 ? "" : "s");
  std::string file = scratch / "machine.yaml";
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const auto [status, signal] =
      run_child({self, "machine", "--measure", "-n", std::to_string(ranks), "-o", file}, scratch / "machine.txt");
  if (signal != 0) return "";
  if (status != 0) throw meshrt::Failure(meshrt::Cause::environment, "`meshc machine --measure` fails: run it alone");
  return file;
}

std::optional<OnMachine> planned_for(Session& session, const std::string& machine) {
  session.request.machine_file = machine;
  session.request.past_limits = true;
  std::optional<Compiled> compiled = session.quietly(session.request);
  if (!compiled) return std::nullopt;
  Prediction step = predict(compiled->program);
  const StepTime time = step_time(compiled->program, step);
  CompileRequest alone = session.request;
  alone.one_rank = true;
  const std::optional<Compiled> reference = session.quietly(alone);
  const double flops = reference ? predict(reference->sharded()).flops : step.flops;
  return OnMachine{std::move(*compiled), std::move(step), time, flops};
}

int bench(const BenchOptions& options) {
  Session session(options.spec, options.output);
  const std::optional<Compiled> compiled = compile_for_run(session, options.spec);
  if (!compiled || !may_start(session, *compiled)) return exit_diagnostics;
  const ScratchFolder scratch;
  // First of all: data that does not fit is told before the machine is measured and the program built.
  const bool random_data = write_trial_input(session, options.spec, *compiled, options.steps, options.random, scratch);
  const bool measures = options.spec.machine.empty();
  const std::string machine =
      measures ? measured_machine(compiled->sharded().layout.mesh.ranks(), scratch) : options.spec.machine;
  if (machine.empty()) return exit_interrupted;
  std::optional<OnMachine> planned = planned_for(session, machine);
  if (!planned) throw std::logic_error("a spec that was compiled is not compiled again");
  std::optional<Trial> trial = try_steps(session, options.spec, *compiled, scratch);
  if (!trial) return exit_interrupted;
  trial->random_data = random_data;
  std::vector<Advice> advice = advice_for(session, *planned, *trial, meshrt::allowed_cores());
  const Benched found{program_name(options.spec), std::move(*trial), std::move(*planned), measures, std::move(advice)};
  if (options.output.json) fmt::print("{}\n", bench_json(found).dump(2));
  else fmt::print("{}", bench_text(found, options.output.colored(STDOUT_FILENO)));
  return exit_ok;
}

}  // namespace

Command bench_command() {
  return {
      "bench",
      "where the time of a step goes on this machine, and what would make it shorter",
      "Measures this machine (or takes --machine), builds the program as `meshc run` does, and makes some steps of it, "
      "on\n"
      "the data of the run file, else on random numbers. Told are the time of a step beside what is predicted; the\n"
      "share of the ranks' arithmetic that the model needs (model-flops utilisation; what is computed twice does not\n"
      "count); where the time goes, by rank: products, attention, loop nests, collectives, waiting; the lines of the\n"
      "spec that cost most; and what would help most: another layout, a rule, larger products, less that is computed\n"
      "again. Nothing is kept. The machine should do nothing else.",
      {{"meshc bench gpt.mesh", "under the default layout"},
       {"meshc bench gpt.mesh --layout megatron --mesh model=2", "under another"},
       {"meshc bench gpt.mesh --steps 100 --json", "more steps; for programs"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<BenchOptions>();
        options->spec.declare(app, true);
        app.add_option("--steps", options->steps, "steps that are measured, after three to warm up (default 20)")
            ->type_name("N")
            ->check(CLI::Range(int64_t{1}, int64_t{100'000}));
        app.add_flag("--random", options->random, "on random numbers, though a run file names data");
        options->output.declare(app, true);
        return [options] { return bench(*options); };
      }};
}

}  // namespace mesh
