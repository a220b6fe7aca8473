// launch.h: how ranks come to be: threads of this process, or processes that `meshrun` or the program itself starts.
// A job ends as one: the first rank that fails stops the others, and one message on stderr says which and why.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "meshrt/rank.h"

namespace meshrt {

/// Runs `body` on `ranks` threads that share an arena. Returns the greatest exit code of the bodies; when a body
/// throws, the others are stopped at their next collective, the first failure is printed, and its exit code returned.
int launch_threads(int ranks, const std::function<int(Rank&)>& body);

/// True in a process that was started as a rank of a job: by launch_processes (so also meshrun), mpirun, srun,
/// torchrun.
bool in_job();

/// This process as a rank of the job that started it (see in_job), or as the only rank of a job of one.
std::unique_ptr<Rank> join_job();

/// Joins the job, runs `body` and leaves the job in order: what `main` of a program calls. A Failure (or any exception)
/// is told to the launcher, which prints it once; without a launcher it is printed here. Returns the exit code.
int run_rank(const std::function<int(Rank&)>& body);

struct LaunchOptions {
  std::string transport = "";   ///< "arena" or "ucx"; empty: MESHRT_TRANSPORT, else arena
  double timeout = 0;           ///< seconds a rank waits for another; 0: MESHRT_TIMEOUT, else 600
  bool tag_output = false;      ///< prefix every line of output with "[rank] "
  bool pin = true;              ///< one rank a core, when there are enough cores
  std::string log_folder = "";  ///< for a copy of what each rank prints; empty: none
  int restarts = 0;             ///< how often a job that failed is started again
};

/// Starts `ranks` processes of `command` (program and arguments; looked up in PATH) on this host, waits for them and
/// returns the job's exit code: 0, that of the first failure (see exit_code), 130 when interrupted. Call it before any
/// thread starts.
int launch_processes(int ranks, const std::vector<std::string>& command, const LaunchOptions& options = {});

/// CPUs this process may use: its affinity mask, limited by the cgroup's cpu.max. At least 1.
int allowed_cpus();

}  // namespace meshrt
