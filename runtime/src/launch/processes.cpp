// A job on this host alone: its ranks and its coordinator are of one launcher.
#include <fmt/format.h>

#include <cstdlib>

#include "launch/coordinator.h"
#include "launch/local_ranks.h"
#include "launch/restarts.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"
#include "system/host_name.h"
#include "system/wait.h"

namespace meshrt {

void require_cpus(int64_t ranks) {
  constexpr int64_t most = 64;  // of each CPU; they spend their time in waiting for each other long before
  const int cpus = allowed_cpus();
  if (ranks > most * cpus)
    throw Failure(
        Cause::usage,
        fmt::format("{} ranks on {} CPU{} would only hold each other up: this host runs {} at most; a smaller "
                    "mesh, or more hosts (`meshrun --hosts`), can train it",
                    ranks, cpus, cpus == 1 ? "" : "s", most * cpus));
}

int launch_processes(int ranks, const std::vector<std::string>& command, const LaunchOptions& options) {
  if (ranks < 1) throw Failure(Cause::usage, fmt::format("a job needs at least one rank, not {}", ranks));
  if (command.empty()) throw Failure(Cause::usage, "there is no program to run");
  require_cpus(ranks);
  if (options.timeout != 0) setenv("MESHRT_TIMEOUT", fmt::format("{}", options.timeout).c_str(), 1);
  wait_policy(ranks, 1);  // refuses a bad MESHRT_TIMEOUT once, not in every rank
  HostJob job;
  job.placement = Placement::together(ranks, host_name());
  job.carrier = choose_carrier(options.transport, true);
  job.command = command;
  job.tag_output = options.tag_output;
  job.log_folder = options.log_folder;
  job.binding = options.binding;
  return with_restarts(options.restarts, [&]() -> Attempt {
    const Signals signals;
    Coordinator coordinator(job.placement, &signals);
    auto ranks = std::make_unique<LocalRanks>(coordinator);
    ranks->begin(job);
    coordinator.add(std::move(ranks));
    return {coordinator.run(), coordinator.was_asked_to_end()};
  });
}

}  // namespace meshrt
