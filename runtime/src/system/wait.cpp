#include "system/wait.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>

#include <cmath>
#include <cstdlib>
#include <thread>

namespace meshrt {

using std::chrono::duration_cast;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

void WaitPolicy::set_timeout(double seconds) {
  constexpr double most = 1e8;  // nanoseconds have no room for much more
  timeout = duration_cast<nanoseconds>(std::chrono::duration<double>(std::min(seconds, most)));
}

WaitPolicy wait_policy(int threads, int cpus) {
  WaitPolicy policy;
  if (threads > cpus) policy.spin = 0ns;
  if (const char* text = std::getenv("MESHRT_TIMEOUT"); text && *text) {
    char* end = nullptr;
    const double seconds = std::strtod(text, &end);
    if (*end || !(seconds > 0) || !std::isfinite(seconds))
      throw Failure(Cause::usage, fmt::format("MESHRT_TIMEOUT is '{}'; give a positive number of seconds", text));
    policy.set_timeout(seconds);
  }
  return policy;
}

void Patience::rest() {
  constexpr auto yielding = 2ms;  // longer waits are imbalance, not latency: sleep
  const auto waited = now_ - start_;
  if (waited < yielding) {
    sched_yield();
    return;
  }
  prctl(PR_SET_TIMERSLACK, 1);  // by default a nap of 50 us takes 100
  std::this_thread::sleep_for(waited < 100 * yielding ? 50us : 500us);
}

bool Patience::look_due() {
  if (now_ < next_look_) return false;
  const bool first = next_look_ == start_;
  next_look_ = now_ + 1ms;
  return !first;
}

}  // namespace meshrt
