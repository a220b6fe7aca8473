#include "codegen/emit/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "meshrt/failure.h"

namespace mesh {

namespace {

/// Signals are taken by wait() while this lives, but those that are ignored, as a shell makes a job in the background
/// ignore SIGINT.
class TakenSignals {
 public:
  TakenSignals() {
    signal(SIGCHLD, SIG_DFL);  // a parent may have had it ignored, and nobody could be waited for
    sigemptyset(&set_);
    sigaddset(&set_, SIGCHLD);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
      struct sigaction action {};
      sigaction(number, nullptr, &action);
      if (action.sa_handler != SIG_IGN) sigaddset(&set_, number);
    }
    sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ~TakenSignals() { restore(); }
  TakenSignals(const TakenSignals&) = delete;
  TakenSignals& operator=(const TakenSignals&) = delete;

  void restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  int wait() const {
    int number = 0;
    while (sigwait(&set_, &number) != 0) {}
    return number;
  }

 private:
  sigset_t set_{}, before_{};
};

[[noreturn]] void become(const std::vector<std::string>& command, const std::string& log,
                         const std::map<std::string, std::string>& environment) {
  constexpr int not_started = 127;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& one : command) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file >= 0 && dup2(file, STDOUT_FILENO) >= 0 && dup2(file, STDERR_FILENO) >= 0)
    execv(arguments.front(), arguments.data());
  _exit(not_started);
}

}  // namespace

// It is a process group of its own, so that one signal reaches the child's own children too.
ChildEnd run_child(const std::vector<std::string>& command, const std::filesystem::path& log,
                   const std::map<std::string, std::string>& environment) {
  const TakenSignals signals;
  const pid_t child = fork();
  if (child < 0)
    throw meshrt::Failure(meshrt::Cause::environment,
                          "cannot start " + command.front() + ": there is no room for a process");
  if (child == 0) {
    signals.restore();
    become(command, log, environment);
  }
  setpgid(child, child);  // whichever of the two comes first
  ChildEnd end;
  while (waitpid(child, &end.status, WNOHANG) == 0) {
    const int number = signals.wait();
    if (number == SIGCHLD) continue;
    end.signal = number;
    kill(-child, SIGTERM);
  }
  kill(-child, SIGKILL);
  return end;
}

}  // namespace mesh
