#include "driver/stop_request.h"

#include <array>
#include <atomic>
#include <csignal>
#include <mutex>

#include "system/stop_signals.h"

namespace meshrt {

namespace {

// A signal belongs to the process, so this does too.
std::atomic<int> received = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch such");

struct Installed {
  std::mutex mutex;
  int users = 0;
  std::array<struct sigaction, stop_signals.size()> before{};
};
Installed& installed() {
  static Installed state;
  return state;
}

void note(int signal) {
  if (received.exchange(signal, std::memory_order_relaxed) != SIGINT || signal != SIGINT) return;
  ::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace

StopRequest::StopRequest() {
  Installed& state = installed();
  const std::lock_guard lock(state.mutex);
  if (state.users++ > 0) return;
  received.store(0, std::memory_order_relaxed);
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < stop_signals.size(); ++i) {
    sigaction(stop_signals[i], nullptr, &state.before[i]);
    if (state.before[i].sa_handler != SIG_IGN) sigaction(stop_signals[i], &action, nullptr);
  }
}

StopRequest::~StopRequest() {
  Installed& state = installed();
  const std::lock_guard lock(state.mutex);
  if (--state.users > 0) return;
  for (size_t i = 0; i < stop_signals.size(); ++i) sigaction(stop_signals[i], &state.before[i], nullptr);
}

int StopRequest::signal() { return received.load(std::memory_order_relaxed); }

}  // namespace meshrt
