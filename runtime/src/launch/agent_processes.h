// agent_processes.h: the commands that start an agent on each host: ssh, or what is to be run in its place.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "system/token.h"

namespace meshrt {

class AgentProcesses {
 public:
  AgentProcesses() = default;
  /// Waits a moment for those that are left, then kills them.
  ~AgentProcesses();
  AgentProcesses(const AgentProcesses&) = delete;
  AgentProcesses& operator=(const AgentProcesses&) = delete;

  /// Runs `shell HOST "command..."`: words of `shell` are divided by spaces, what is run there is quoted for the shell
  /// of the other side. The token goes through its standard input, where no list of processes shows it. An empty
  /// `shell` runs the command here. Throws Failure (Cause::environment).
  void start(const std::string& shell, const std::string& host, const std::vector<std::string>& command,
             const Token& token);

  /// The index of one that has ended since, and how it did, in words; -1 when all run. For each only once.
  int ended(std::string& how);

 private:
  std::vector<pid_t> pids_;  // 0: ended
};

}  // namespace meshrt
