#include "launch/agent_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <sstream>
#include <thread>

#include "launch/child.h"
#include "meshrt/failure.h"
#include "system/descriptor.h"
#include "system/tell.h"

namespace meshrt {

namespace {

// 'it'\''s': one word for any shell.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<std::string> words_of(const std::string& shell, const std::string& host,
                                  const std::vector<std::string>& command) {
  if (shell.empty()) return command;
  std::vector<std::string> words;
  std::istringstream parts(shell);
  for (std::string word; parts >> word;) words.push_back(word);
  words.push_back(host);
  std::string text;
  for (const std::string& word : command) text += (text.empty() ? "" : " ") + quoted(word);
  words.push_back(text);
  return words;
}

}  // namespace

void AgentProcesses::start(const std::string& shell, const std::string& host, const std::vector<std::string>& command,
                           const Token& token) {
  std::vector<std::string> words = words_of(shell, host, command);
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Failure(Cause::environment, fmt::format("cannot make a pipe to host {}: {}", host, std::strerror(errno)));
  const Descriptor theirs(ends[0]), ours(ends[1]);
  const std::string line = token.text() + "\n";
  if (write(ours.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))  // a pipe has room for it
    throw Failure(Cause::environment, fmt::format("cannot write to a pipe: {}", std::strerror(errno)));
  const pid_t launcher = getpid(), child = fork();
  if (child < 0) throw Failure(Cause::environment, fmt::format("cannot start {}: {}", words[0], std::strerror(errno)));
  if (child == 0) {
    setpgid(0, 0);  // what is typed at the terminal goes to the launcher, which tells the agents
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != launcher) _exit(1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    dup2(theirs.get(), STDIN_FILENO);
    execvp(pointers[0], pointers.data());
    tell("cannot run '{}': {}\n", pointers[0], std::strerror(errno));
    _exit(127);
  }
  pids_.push_back(child);
}

int AgentProcesses::ended(std::string& how) {
  for (size_t i = 0; i < pids_.size(); ++i) {
    int status = 0;
    if (pids_[i] == 0 || waitpid(pids_[i], &status, WNOHANG) != pids_[i]) continue;
    pids_[i] = 0;
    how = how_it_ended(status);
    return static_cast<int>(i);
  }
  return -1;
}

AgentProcesses::~AgentProcesses() {
  constexpr auto moment = std::chrono::milliseconds(10);
  std::string how;
  const auto any = [&] {
    while (ended(how) >= 0) {}
    for (const pid_t pid : pids_)
      if (pid != 0) return true;
    return false;
  };
  for (int i = 0; i < 50 && any(); ++i) std::this_thread::sleep_for(moment);
  for (const pid_t pid : pids_) {
    if (pid == 0) continue;
    kill(-pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

}  // namespace meshrt
