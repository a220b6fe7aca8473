// hosts.h: a job on several hosts: an agent is started on each (by ssh, or by whoever starts containers), comes to the
// coordinator, and starts its ranks.
#pragma once
#include <string>
#include <vector>

#include "control/placement.h"
#include "launch/secret.h"
#include "meshrt/launch.h"

namespace meshrt {

struct HostsOptions {
  LaunchOptions launch;
  std::string shell;               ///< starts a command on a host, as ssh does
  bool started_elsewhere = false;  ///< the agents of all hosts but this, the first, with the token of the environment
  std::string address;             ///< of this host, at which the others reach it; empty: by the route to them
  int port = 0;                    ///< 0: a free one
  std::vector<std::string> variables;  ///< NAME or NAME=VALUE, for the ranks
  double connect_timeout = 60;         ///< seconds until all hosts must be there
};

/// The token of agents that are started elsewhere (token_from_environment). Throws Failure (Cause::usage) when there is
/// none.
Token token_of_nodes();

/// Starts the job and returns its exit code, as launch_processes does for one host.
int launch_hosts(const Placement& placement, const std::vector<std::string>& command, const HostsOptions& options);

}  // namespace meshrt
