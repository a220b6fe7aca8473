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

/// Whether ranks keep to a CPU each.
enum class Binding : uint8_t {
  automatic,  ///< when the ranks of the host take all CPUs that this process may use; else the system places them
  core,       ///< rank k to the k-th of these CPUs, when there are enough
  none
};

struct LaunchOptions {
  std::string transport = "";  ///< "arena" or "ucx"; empty: MESHRT_TRANSPORT, else arena
  double timeout = 0;          ///< seconds a rank waits for another; 0: MESHRT_TIMEOUT, else 600
  bool tag_output = false;     ///< prefix every line of output with "[rank] "
  Binding binding = Binding::automatic;
  std::string log_folder = "";  ///< for a copy of what each rank prints; empty: none
  int restarts = 0;             ///< how often a job that failed is started again
};

/// Starts `ranks` processes of `command` (program and arguments; looked up in PATH) on this host, waits for them and
/// returns the job's exit code: 0, that of the first failure (see exit_code), 130 when interrupted. Call it before any
/// thread starts.
int launch_processes(int ranks, const std::vector<std::string>& command, const LaunchOptions& options = {});

/// A job on several hosts: what the options of meshrun say.
struct SeveralHosts {
  LaunchOptions launch;
  std::string hosts = "", host_file = "";   ///< the list, or the file that has it
  int nodes = 0, per_node = 0;              ///< how many of the hosts, and ranks on each; 0: not said
  int node_rank = -1;                       ///< this is one of `nodes`, all of which are started elsewhere
  std::string coordinator = "";             ///< HOST:PORT of node 0
  std::string shell = "";                   ///< starts a command on a host; empty: MESHRUN_SSH, or ssh
  std::string address = "";                 ///< of this host, for the others; empty: by the route to them
  std::vector<std::string> variables = {};  ///< NAME or NAME=VALUE, for the ranks
  double connect_timeout = 60;              ///< seconds until all hosts must be there
};

/// As launch_processes, on other hosts; `ranks` 0: as many as they have slots.
int launch_on_hosts(int ranks, const std::vector<std::string>& command, const SeveralHosts& options);

/// What meshrun is on another host, where it was started with the token of its job on standard input.
int serve_as_agent(const std::string& coordinator, int host, double connect_timeout);

/// Throws Failure (Cause::usage) where so many ranks on this host would only hold each other up: above 64 a CPU.
void require_cpus(int64_t ranks);

/// CPUs this process may use: its affinity mask, limited by the quotas of its control groups (cpu.max). At least 1.
int allowed_cpus();

/// The cores that these are threads of, under the same quotas. At least 1.
int allowed_cores();

}  // namespace meshrt
