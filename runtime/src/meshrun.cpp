// meshrun: starts a program as the ranks of a job on this host.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "meshrt/failure.h"
#include "meshrt/launch.h"

int main(int argc, char** argv) {
  CLI::App app{
      "meshrun [OPTIONS] PROGRAM [ARGUMENTS...]\n\nRuns PROGRAM as the ranks of one job on this host. The job ends as "
      "one: when a rank fails, the others are\n"
      "stopped and one message says which rank and why.\n"
      "Exit codes: 0 success, 1 a mistake in the input, 2 wrong usage, 3 the environment or the run failed,\n"
      "70 an internal error, 75 stopped with a checkpoint (see the program's help), 130 interrupted. SIGTERM and "
      "SIGUSR1 go "
      "to the ranks,\nwhich end in order if they can; a second one, or SIGINT, ends them at once.",
      "meshrun"};
  int ranks = 1;
  meshrt::LaunchOptions options;
  bool no_pin = false;
  app.add_option("-n,--np,--ranks", ranks, "number of ranks")->capture_default_str();
  app.add_option("--transport", options.transport, "arena: shared memory (the default); ucx: messages")
      ->check(CLI::IsMember({"arena", "ucx"}));
  app.add_option("--timeout", options.timeout, "seconds a rank waits for another before the job fails (default 600)");
  app.add_flag("--tag-output", options.tag_output, "put [rank] before every line that a rank prints");
  app.add_flag("--no-pin", no_pin, "do not keep each rank on one core");
  app.prefix_command();  // the first word that is no option is PROGRAM; what follows is its own
  std::vector<std::string> arguments;
  // mpirun's users type -np.
  for (int i = argc - 1; i > 0; --i) arguments.emplace_back(argv[i] == std::string("-np") ? "--np" : argv[i]);
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.pin = !no_pin;
  try {
    return meshrt::launch_processes(ranks, app.remaining(), options);
  } catch (const meshrt::Failure& failure) {
    fmt::print(stderr, "error: {}\n", failure.what());
    return meshrt::exit_code(failure.cause);
  }
}
