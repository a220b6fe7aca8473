// slurm.cpp: `meshc slurm SPEC --nodes N`: a batch file for a program of `meshc build`.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <vector>

#include "codegen/commands/command.h"
#include "codegen/commands/compile_for_run.h"
#include "codegen/commands/emission.h"
#include "codegen/commands/session.h"
#include "codegen/emit/pattern.h"

namespace mesh {

namespace {

struct SlurmOptions {
  OutputOptions output;
  SpecOptions spec;
  std::string folder, time = "01:00:00", partition, account;
  int nodes = 1, warning = 120;
  bool bundle = false;
};

/// Words of a `#SBATCH` line, which no shell reads: what would end the word, or the line, is refused.
void require_word(const std::string& option, const std::string& word) {
  const auto good = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-.:,+").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!std::ranges::all_of(word, good))
    throw UsageError(fmt::format("{}: `{}` has characters that Slurm takes for something else", option, word));
}

/// One word for the shell, whatever is in it.
std::string quoted(const std::string& word) {
  if (word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,:=+/") ==
      std::string::npos)
    return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// Slurm's way to write a time: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S, in seconds.
int64_t seconds_of(const std::string& time) {
  const auto refuse = [&] {
    throw UsageError(
        fmt::format("--time: `{}` is no time for Slurm: 12:00:00, 90 (minutes) or 2-00:00:00 (days)", time));
  };
  if (!Pattern("^([0-9]{1,5}-)?[0-9]{1,6}(:[0-9]{1,6}){0,2}$").find(time)) refuse();
  std::vector<int64_t> parts;  // days first, where there are any
  for (size_t begin = 0; begin <= time.size();) {
    const size_t end = std::min(time.find_first_of("-:", begin), time.size());
    parts.push_back(std::stoll(time.substr(begin, end - begin)));
    begin = end + 1;
  }
  const bool days = time.find('-') != std::string::npos;
  if (!days && parts.size() < 3) parts.insert(parts.begin(), 0);  // hours
  if (!days) parts.insert(parts.begin(), 0);
  parts.resize(4);
  return ((parts[0] * 24 + parts[1]) * 60 + parts[2]) * 60 + parts[3];
}

/// A signal that comes before the first step is done would put the job into the queue again for ever.
void require_time_to_run(const SlurmOptions& options) {
  constexpr int64_t early = 60;  // Slurm's own resolution
  constexpr int64_t start = 60;
  const int64_t time = seconds_of(options.time);  // 0: without end
  if (time != 0 && time < options.warning + early + start)
    throw UsageError(
        fmt::format("--time {} --signal {}: the job may be told to stop before its first step is done, again and "
                    "again; Slurm may be a minute early, and a start takes a while: --time must be at least {} seconds "
                    "longer than --signal",
                    options.time, options.warning, early + start));
}

int print_batch_file(const SlurmOptions& options) {
  require_time_to_run(options);
  require_word("--partition", options.partition);
  require_word("--account", options.account);
  Session session(options.spec, options.output);
  // Reads the run file too, whose mistakes the job would find after hours in the queue.
  const std::optional<Compiled> compiled = compile_for_run(session, options.spec);
  if (!compiled) return exit_diagnostics;
  const int64_t ranks = compiled->sharded().layout.mesh.ranks();
  if (ranks % options.nodes != 0)
    throw UsageError(fmt::format("{} rank{} on {} nodes: as many are to run on each, so --nodes has to divide {}",
                                 ranks, ranks == 1 ? "" : "s", options.nodes, ranks));
  const std::string name = program_name(options.spec);
  const std::string folder = options.folder.empty() ? name : options.folder;
  std::string command = quoted(folder + "/" + name);
  if (!options.spec.run_file().empty())
    command += " " + quoted(folder + "/" + name + (options.bundle ? ".json" : ".yaml"));
  command += fmt::format(" checkpoint.dir={}-ckpt", name);
  for (const std::string& word : options.spec.overrides()) command += " " + quoted(word);
  fmt::print("#!/bin/sh\n#SBATCH --job-name={}\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node={}\n", name,
             options.nodes, ranks / options.nodes);
  fmt::print("#SBATCH --cpus-per-task=1\n#SBATCH --time={}\n", options.time);
  if (!options.partition.empty()) fmt::print("#SBATCH --partition={}\n", options.partition);
  if (!options.account.empty()) fmt::print("#SBATCH --account={}\n", options.account);
  fmt::print(
      "#SBATCH --output={0}-%j.out\n"
      "#SBATCH --open-mode=append\n"
      "#SBATCH --requeue\n"
      "# So many seconds before the end: the run writes a checkpoint and ends with code 75.\n"
      "#SBATCH --signal=USR1@{1}\n\n"
      "# Where `srun --mpi=list` has no pmix, leave --mpi=pmix out; several nodes then need MUNGE or ~/.meshrt-token.\n"
      "srun --mpi=pmix {2}\n"
      "code=$?\n"
      "# In the queue again; a job that Slurm has restarted goes on from its newest checkpoint.\n"
      "if [ $code -eq 75 ]; then scontrol requeue \"$SLURM_JOB_ID\"; fi\n"
      "exit $code\n",
      name, options.warning, command);
  return exit_ok;
}

}  // namespace

Command slurm_command() {
  return {"slurm",
          "print a batch file for Slurm",
          "The job writes checkpoints to NAME-ckpt, stops before its time ends, and puts itself into the queue again.\n"
          "It runs what `meshc build` has made of the same spec with the same layout and mesh.",
          {{"meshc slurm gpt.mesh --nodes 2 >gpt.sh", "as many ranks on each node; then sbatch gpt.sh"},
           {"meshc slurm gpt.mesh --nodes 4 --mesh data=4,model=8 --time 12:00:00", "another mesh, twelve hours"}},
          [](CLI::App& app) -> std::function<int()> {
            auto options = std::make_shared<SlurmOptions>();
            options->spec.declare(app, true);
            app.add_option("--nodes", options->nodes, "number of nodes")
                ->check(CLI::Range(1, 1'000'000))
                ->capture_default_str();
            app.add_option("-o,--output", options->folder,
                           "the folder that `meshc build` wrote to (default: the spec's name)")
                ->type_name("DIR");
            app.add_flag("--bundle", options->bundle, "the folder is one of `meshc build --bundle`");
            app.add_option("--time", options->time, "of the job")->type_name("HH:MM:SS")->capture_default_str();
            app.add_option("--signal", options->warning, "seconds before its end that the run stops in order")
                ->check(CLI::Range(1, 65535))
                ->capture_default_str();
            app.add_option("--partition", options->partition, "the partition to run in");
            app.add_option("--account", options->account, "the account to charge");
            options->output.declare(app, false);
            return [options] { return print_batch_file(*options); };
          }};
}

}  // namespace mesh
