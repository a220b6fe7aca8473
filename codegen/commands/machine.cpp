// machine.cpp: `meshc machine`: a machine description, shown and checked, or measured on the hosts at hand.
#include "codegen/layout/machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "codegen/commands/command.h"
#include "codegen/commands/measure/description.h"
#include "codegen/commands/measure/host.h"
#include "codegen/commands/options.h"
#include "codegen/commands/session.h"
#include "codegen/commands/write_file.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"

namespace mesh {

namespace {

struct MachineOptions {
  OutputOptions output;
  std::string file, out;
  std::optional<std::string> name;
  int ranks = 0;  // 0: not given
  bool measures = false;
};

/// One line, as it stands in `plan` and in the header of programs.
void require_name(const std::string& name) {
  const bool good = std::ranges::all_of(name, [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
  if (!good || name.empty() || name.size() > 100)
    throw UsageError("--name is one line of at most 100 characters, without control characters");
}

void print_measured(const MachineOptions& options, const Measured& found, const std::string& name) {
  const std::string text = description(found, name);
  if (!options.out.empty()) write_file(options.out, text);
  const std::string hash = hash_of_description(text);
  if (options.output.json) {
    fmt::print("{}\n", measured_json(found, name, hash).dump(2));
    return;
  }
  if (options.out.empty()) fmt::print("{}# hash {}\n", text, hash);
  else fmt::print("machine {} is in {}, hash {}: `--machine {}` plans for it\n", name, options.out, hash, options.out);
}

/// What each rank does.
int measure_as_rank(const MachineOptions& options, meshrt::Rank& rank) {
  const bool first = rank.rank() == 0, shown = first && isatty(STDERR_FILENO) != 0;
  const Measured found = measure_hosts(rank, [&](const std::string& line) {
    if (shown) fmt::print(stderr, "\r\033[Kmeasuring {} rank{}: {}", rank.ranks(), rank.ranks() == 1 ? "" : "s", line);
  });
  if (!first) return exit_ok;
  if (shown) fmt::print(stderr, "\r\033[K");
  fmt::print(stderr, "{}", what_was_found(found));
  print_measured(options, found, options.name.value_or(fmt::format("{}, {}", cpu_model(), ranks_text(found))));
  return exit_ok;
}

/// This command as ranks, which `meshrun` or this one starts.
int measure(const MachineOptions& options) {
  if (!options.file.empty()) throw UsageError("--measure reads no description: leave the file out, or name it by -o");
  if (options.name) require_name(*options.name);
  const auto as_rank = [&](meshrt::Rank& rank) {
    if (meshrt::in_job() && options.ranks != 0)
      throw meshrt::Failure(meshrt::Cause::usage, "the launcher has started the ranks: leave -n out");
    return measure_as_rank(options, rank);
  };
  if (meshrt::in_job()) return meshrt::run_rank(as_rank);
  require_writable(options.out);
  meshrt::require_cpus(options.ranks);
  const int cores = meshrt::allowed_cores(), ranks = options.ranks == 0 ? cores : options.ranks;
  if (ranks > cores)
    fmt::print(stderr, "warning: {} ranks on {} cores take turns: the rates are those of a part of a core\n", ranks,
               cores);
  if (ranks == 1) return meshrt::run_rank(as_rank);
  std::vector<std::string> command{std::filesystem::read_symlink("/proc/self/exe"), "machine", "--measure"};
  if (!options.out.empty()) command.insert(command.end(), {"-o", options.out});
  if (options.name) command.push_back("--name=" + *options.name);
  if (options.output.json) command.emplace_back("--json");
  return meshrt::launch_processes(ranks, command);
}

int show(const MachineOptions& options) {
  if (!options.out.empty() || options.name || options.ranks != 0)
    throw UsageError("-n, -o and --name are for --measure");
  Session session(options.output);
  const std::optional<Machine> machine =
      options.file.empty() ? Machine() : read_machine(options.file, session.sources, session.sink);
  session.report();
  if (!machine) return exit_diagnostics;
  if (options.output.json) fmt::print("{}\n", machine_json(*machine).dump(2));
  else fmt::print("{}", machine_text(*machine));
  return exit_ok;
}

}  // namespace

Command machine_command() {
  return {
      "machine",
      "show a machine description, or measure hosts and write one",
      "A description says how fast cores and links are; `--machine FILE` plans for it, and nothing else does. Without\n"
      "a file the generic machine is shown. --measure takes some seconds, and wants hosts that do nothing else: all\n"
      "ranks at once multiply matrices, go through memory, add up values and send some to each other, by size, with\n"
      "the runtime's own kernels: as many ranks as there are cores (-n: another number), or, for the links between\n"
      "hosts too, as `meshrun --hosts` starts.",
      {{"meshc machine", "the generic machine"},
       {"meshc machine cluster.yaml", "what a description says, or what is wrong with it"},
       {"meshc machine --measure -o here.yaml", "measure this host"},
       {"meshrun --hosts a:2,b:2 meshc machine --measure -o two.yaml", "and what joins hosts"},
       {"meshc plan gpt.mesh --machine here.yaml", "plan for it"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<MachineOptions>();
        app.add_option("file", options->file, "a description")->type_name("[FILE]");
        app.add_flag("--measure", options->measures, "measure this host");
        app.add_option("-n,--ranks", options->ranks, "ranks that work at once (default: as many as cores)")
            ->check(CLI::Range(1, 1'000'000))
            ->type_name("N");
        app.add_option("-o,--out", options->out, "write the description to this file, not to standard output")
            ->type_name("FILE");
        app.add_option("--name", options->name, "what it is called (default: the CPU's model and the ranks)")
            ->type_name("NAME");
        options->output.declare(app, true);
        return [options] { return options->measures ? measure(*options) : show(*options); };
      }};
}

}  // namespace mesh
