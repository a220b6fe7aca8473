#include "control/heartbeat.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "control/message.h"
#include "meshrt/failure.h"
#include "system/tell.h"

namespace meshrt {

namespace {

/// Several of them within the longest silence.
std::chrono::milliseconds period_for(std::chrono::milliseconds silence) {
  constexpr std::chrono::milliseconds longest(2000), shortest(20);
  return silence.count() == 0 ? longest : std::clamp(silence / 6, shortest, longest);
}

/// A process has one launcher, so one of these.
std::mutex process_mutex;
Heartbeat* of_process = nullptr;

/// The value of a line "Name:  value" of /proc/PID/status.
std::string status_of(pid_t process, const std::string& name) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) return line.substr(line.find_first_not_of(" \t", name.size() + 1));
  return "";
}

}  // namespace

Heartbeat::Heartbeat(int socket)
    : socket_(socket), stop_(eventfd(0, EFD_CLOEXEC)), period_(period_for(longest_silence())) {
  if (stop_.get() < 0) throw Failure(Cause::environment, fmt::format("cannot make an event: {}", std::strerror(errno)));
  {
    const std::lock_guard lock(process_mutex);
    of_process = this;
  }
  // Signals are for the thread that runs the rank.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(process_mutex);
    if (of_process == this) of_process = nullptr;
  }
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

bool Heartbeat::tell_recorder(const std::string& path) {
  const std::lock_guard lock(process_mutex);
  if (!of_process) return false;
  const std::lock_guard inner(of_process->mutex_);
  of_process->recorder_ = path;
  of_process->beat();
  return true;
}

void Heartbeat::run() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      beat();
    }
    pollfd watched[] = {{socket_, 0, 0}, {stop_.get(), POLLIN, 0}};
    poll(watched, 2, static_cast<int>(period_.count()));
    if (watched[1].revents != 0) return;
    if ((watched[0].revents & POLLHUP) != 0) return end_with_launcher();
  }
}

// The rank's thread sees that the launcher is gone when it next waits long for another rank, and then ends in order.
// Ranks that keep pace never wait long.
void Heartbeat::end_with_launcher() const {
  constexpr int time_to_end_in_order = 500;  // ms
  pollfd stop{stop_.get(), POLLIN, 0};
  if (poll(&stop, 1, time_to_end_in_order) != 0) return;
  tell("error: {}\n", launcher_has_ended);
  _exit(exit_code(Cause::environment));
}

// A launcher that does not listen must not hold the rank up: it has enough of them.
void Heartbeat::beat() { offer_message(socket_, {MessageKind::beat, 0, recorder_}); }

std::chrono::milliseconds longest_silence() {
  const char* text = std::getenv("MESHRT_HEARTBEAT");
  if (!text || !*text) return std::chrono::seconds(12);
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end || !(seconds >= 0) || seconds > 1e6)
    throw Failure(Cause::usage,
                  fmt::format("MESHRT_HEARTBEAT is '{}'; give seconds that a rank may be silent, or 0 for ever", text));
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

std::string state_of(pid_t process) {
  const std::string state = status_of(process, "State");
  if (state.starts_with("T")) return "it is stopped (SIGSTOP, or Ctrl-Z)";
  if (state.starts_with("D")) return "it hangs in the kernel (state D: a disk, or a network file system)";
  return "";
}

bool is_debugged(pid_t process) {
  const std::string tracer = status_of(process, "TracerPid");
  return !tracer.empty() && tracer != "0";
}

}  // namespace meshrt
