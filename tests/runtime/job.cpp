#include "job.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>

namespace meshrt::test {

namespace {

std::string program(const char* variable) {
  const char* path = std::getenv(variable);
  if (!path) throw std::runtime_error(std::string(variable) + " is not set: run the tests with `meson test`");
  return path;
}

// What was written to a file, which is then closed.
std::string content(int file) {
  std::string text(lseek(file, 0, SEEK_END), '\0');
  if (pread(file, text.data(), text.size(), 0) < 0) text = "?";
  close(file);
  return text;
}

}  // namespace

pid_t start_job(const std::vector<std::string>& options, const std::vector<std::string>& arguments, int output,
                int errors) {
  std::vector<std::string> words{program("MESHRUN")};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back(program("RANK_PROGRAM"));
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(output, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  return child;
}

Outcome run_job(const std::vector<std::string>& options, const std::vector<std::string>& arguments, double limit) {
  const int output = memfd_create("output", MFD_CLOEXEC), errors = memfd_create("errors", MFD_CLOEXEC);
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = start_job(options, arguments, output, errors);
  Outcome outcome;
  int status = 0;
  for (;;) {
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (waitpid(child, &status, WNOHANG) == child) {
      outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -2;
      break;
    }
    if (outcome.seconds > limit) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      outcome.code = -1;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  outcome.end = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  outcome.output = content(output);
  outcome.errors = content(errors);
  return outcome;
}

std::vector<pid_t> rank_programs() {
  std::vector<pid_t> pids;
  const std::string wanted = std::filesystem::canonical(program("RANK_PROGRAM"));
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code gone;
    const auto path = std::filesystem::read_symlink(entry.path() / "exe", gone);  // of a zombie there is none
    if (!gone && path == wanted) pids.push_back(std::stoi(name));
  }
  return pids;
}

}  // namespace meshrt::test
