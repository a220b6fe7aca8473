// child.h: starting one rank's process.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "meshrt/launch.h"

namespace meshrt {

/// What one rank's process begins with.
struct ChildStart {
  int rank = 0, ranks = 0;
  int control = -1;             ///< its end of the control socket
  int output = -1, error = -1;  ///< where stdout and stderr go; -1: inherited
  std::vector<int> cpus = {};   ///< to run on; none: any
};

/// Starts `command` in a process group of its own that dies with this thread. A command that cannot be run is reported
/// over the control socket. Throws Failure (Cause::environment) when there is no more room for processes.
pid_t start_child(const std::vector<std::string>& command, const ChildStart& start);

/// "killed by signal 9 (SIGKILL)" or "exited with code 1": how a process ended, from waitpid's status.
std::string how_it_ended(int status);

}  // namespace meshrt
