#include "launch/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "control/message.h"
#include "launch/cpus.h"
#include "meshrt/failure.h"

extern char** environ;

namespace meshrt {

namespace {

// The environment of a rank: this process's, what names the rank, and one thread for libraries that would use all
// cores.
std::vector<std::string> rank_environment(const ChildStart& start) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry; ++entry)
    if (std::strncmp(*entry, "MESHRT_RANK", 11) != 0 && std::strncmp(*entry, "MESHRT_CONTROL=", 15) != 0)
      result.emplace_back(*entry);
  result.push_back(fmt::format("MESHRT_RANK={}", start.rank));
  result.push_back(fmt::format("MESHRT_RANKS={}", start.ranks));
  result.push_back(fmt::format("MESHRT_CONTROL={}", start.control));
  for (const char* name : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"})
    if (!std::getenv(name)) result.push_back(fmt::format("{}=1", name));
  return result;
}

std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& s : strings) result.push_back(const_cast<char*>(s.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

pid_t start_child(const std::vector<std::string>& command, const ChildStart& start) {
  const std::vector<std::string> environment = rank_environment(start);
  const std::vector<char*> arguments = pointers_to(command), variables = pointers_to(environment);
  const pid_t launcher = getpid();
  const pid_t child = fork();
  if (child < 0)
    throw Failure(Cause::environment, fmt::format("cannot start rank {}: {}", start.rank, std::strerror(errno)));
  if (child > 0) {
    setpgid(child, child);  // here and there: whoever comes first
    return child;
  }
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(1);  // it died before the line above
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  if (start.rank > 0) {
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
  }
  if (start.output >= 0) dup2(start.output, STDOUT_FILENO);
  if (start.error >= 0) dup2(start.error, STDERR_FILENO);
  fcntl(start.control, F_SETFD, 0);
  if (!start.cpus.empty()) keep_to(start.cpus);
  execvpe(arguments[0], arguments.data(), variables.data());
  send_message(start.control, {MessageKind::failed, static_cast<int32_t>(Cause::usage),
                               fmt::format("cannot run '{}': {}", arguments[0], std::strerror(errno))});
  _exit(2);
}

std::string how_it_ended(int status) {
  if (WIFEXITED(status)) return fmt::format("exited with code {}", WEXITSTATUS(status));
  const char* name = sigabbrev_np(WTERMSIG(status));
  return fmt::format("was killed by signal {} (SIG{})", WTERMSIG(status), name ? name : "?");
}

}  // namespace meshrt
