// meshrun: starts a program as the ranks of a job, on this host or on several.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>

#include "meshrt/failure.h"
#include "meshrt/launch.h"
#include "meshrt/standard_streams.h"
#include "meshrt/threads.h"
#include "report/flight_reader.h"
#include "system/suggest.h"
#include "system/tell.h"

namespace {

using meshrt::Failure;

struct Options {
  int ranks = 0, threads = 0;
  std::string agent, bind_to = "auto";
  meshrt::SeveralHosts job;
  std::vector<std::string> command;
  bool display_map = false;
};

/// Help whose line of usage names what is started.
class LauncherHelp : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* /*app*/, std::string name) const override {
    return "\nUsage: " + name + " [OPTIONS] [--] PROGRAM [ARGUMENTS...]\n       " + name + " postmortem DIR\n";
  }
};

void declare(CLI::App& app, Options& options) {
  const auto count = CLI::Range(1, 1'000'000);
  app.add_option("-n,--np,--ranks", options.ranks, "number of ranks (default 1, or all slots of the hosts)")
      ->check(count);
  app.add_option("--transport", options.job.launch.transport,
                 "arena: shared memory; ucx: messages (default: memory within a host, messages between hosts)")
      ->check(CLI::IsMember({"arena", "ucx"}));
  app.add_option("--timeout", options.job.launch.timeout,
                 "seconds a rank waits for another before the job fails (default 600)");
  app.add_option("--bind-to", options.bind_to,
                 "core: each rank keeps to CPUs of its own, as many as its threads, if there are enough; none; auto: "
                 "core where they take all CPUs")
      ->check(CLI::IsMember({"auto", "core", "none"}))
      ->capture_default_str();
  app.add_option("--threads,--threads-per-rank", options.threads,
                 "threads in each rank (default 1); the same bits for every number")
      ->check(CLI::Range(1, meshrt::most_threads));
  app.add_flag("--tag-output", options.job.launch.tag_output, "put [rank] before every line that a rank prints");
  app.add_option("--log-dir", options.job.launch.log_folder,
                 "also write what each rank prints to DIR/rank-N.out and rank-N.err");
  app.add_option(
         "--max-restarts", options.job.launch.restarts,
         "start a job that failed (code 3) again, at most so often; it goes on from the checkpoints it has written")
      ->check(CLI::Range(0, 1'000'000));
  app.add_flag("--display-map", options.display_map, "show which rank runs where also for one host");

  const char* several = "Several hosts";
  app.add_option("--hosts,-H,--host", options.job.hosts, "NAME:RANKS,...: run there, each host filled before the next")
      ->group(several);
  app.add_option("--hostfile", options.job.host_file, "the same from a file: lines `NAME slots=4` or `NAME:4`")
      ->excludes("--hosts")
      ->group(several);
  app.add_option("--nnodes", options.job.nodes,
                 "how many of the hosts; or the number of nodes, each with its own meshrun")
      ->check(count)
      ->group(several);
  app.add_option("--nproc-per-node", options.job.per_node, "ranks on each host")->check(count)->group(several);
  app.add_option("--ssh", options.job.shell,
                 "command that runs a command on a host (MESHRUN_SSH, or `ssh -o BatchMode=yes`)")
      ->group(several);
  app.add_option("--address", options.job.address, "of this host, for the others (default: by the route to them)")
      ->group(several);
  app.add_option("-x", options.job.variables, "NAME or NAME=VALUE: a variable that all ranks get")
      ->allow_extra_args(false)
      ->group(several);
  app.add_option("--connect-timeout", options.job.connect_timeout, "seconds until all hosts must be there")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(several);
  app.add_option("--node-rank", options.job.node_rank, "this is node K of --nnodes, which are started elsewhere")
      ->check(CLI::NonNegativeNumber)
      ->group(several);
  app.add_option("--coordinator", options.job.coordinator, "HOST:PORT of node 0, for --node-rank")->group(several);
  app.add_option("--agent", options.agent)->group("");  // what meshrun starts on other hosts
}

int run(Options& options) {
  options.job.launch.binding = options.bind_to == "core"   ? meshrt::Binding::core
                               : options.bind_to == "none" ? meshrt::Binding::none
                                                           : meshrt::Binding::automatic;
  if (options.threads > 0) setenv("MESHRT_THREADS", std::to_string(options.threads).c_str(), 1);
  if (options.display_map) setenv("MESHRT_DISPLAY_MAP", "1", 1);
  if (!options.agent.empty())
    return meshrt::serve_as_agent(options.agent, options.job.node_rank, options.job.connect_timeout);
  const bool elsewhere = !options.job.hosts.empty() || !options.job.host_file.empty() || options.job.node_rank >= 0 ||
                         options.job.nodes > 1;
  if (elsewhere) return meshrt::launch_on_hosts(options.ranks, options.command, options.job);
  for (const std::string& variable : options.job.variables)
    if (const size_t equals = variable.find('='); equals != std::string::npos)
      setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  const int ranks = options.ranks != 0 ? options.ranks : std::max(1, options.job.per_node);
  return meshrt::launch_processes(ranks, options.command, options.job.launch);
}

/// "--ranks", "--hosts": the long ones, which help lists.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames())
      if (!option->get_group().empty()) names.push_back("--" + name);
  return names;
}

int tell_postmortem(const std::string& folder) {
  meshrt::tell_on(stdout, "{}", meshrt::postmortem(folder));
  return 0;
}

int code_of(const std::function<int()>& body) {
  try {
    return body();
  } catch (const Failure& failure) {
    meshrt::tell("error: {}\n", failure.what());
    return meshrt::exit_code(failure.cause);
  } catch (const std::exception& error) {
    meshrt::tell("internal error: {}\n", error.what());
    return 70;
  }
}

}  // namespace

int main(int argc, char** argv) {
  meshrt::open_standard_streams();
  if (argc > 1 && argv[1] == std::string("postmortem")) {
    if (argc == 3) return code_of([&] { return tell_postmortem(argv[2]); });
    meshrt::tell("error: `meshrun postmortem DIR` takes the folder of a run, as `runs/gpt-0001`\n");
    return 2;
  }
  CLI::App app{
      "Runs PROGRAM as the ranks of one job, on this host or on others. The job ends as one: when a rank fails, the "
      "others\n"
      "are stopped and one message says which rank and why. `meshrun postmortem DIR` tells from the folder of a run "
      "what\n"
      "its ranks did last.\n"
      "Exit codes: 0 success, 1 a mistake in the input, 2 wrong usage, 3 the environment or the run failed,\n"
      "70 an internal error, 75 stopped with a checkpoint (see the program's help), 130 interrupted. Signals to end "
      "(TERM, USR1, INT, HUP) go\nto the ranks, which end in order if they write checkpoints; a second one ends them "
      "at once.",
      "meshrun"};
  app.formatter(std::make_shared<LauncherHelp>());
  Options options;
  declare(app, options);
  app.prefix_command();  // the first word that is no option, or comes after `--`, is PROGRAM; what follows is its own
  std::vector<std::string> arguments;
  // mpirun's users type -np.
  for (int i = argc - 1; i > 0; --i) arguments.emplace_back(argv[i] == std::string("-np") ? "--np" : argv[i]);
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  // As they were typed: `-np` among them is the program's own.
  options.command.assign(argv + argc - static_cast<int>(app.remaining().size()), argv + argc);
  if (!options.command.empty() && options.command.front() == "--") {
    options.command.erase(options.command.begin());
  } else if (!options.command.empty() && options.command.front().starts_with("-")) {
    const std::string& word = options.command.front();
    meshrt::tell("error: unknown option `{}`: {}\nsee --help\n", word,
                 meshrt::suggestion(word, option_names(app), "options"));
    return 2;
  }
  return code_of([&] { return run(options); });
}
