// wait.h: how a rank waits for another one. It looks after every pause of its core, at first without a clock; after
// some microseconds it gives its core away, then it sleeps in short naps. It never waits past the deadline, and it
// stops when the job is aborted. With more ranks than CPUs it gives its core away at once.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "meshrt/failure.h"
#include "meshrt/profile.h"

namespace meshrt {

/// Ends the waits of ranks that did nothing wrong after another rank failed. Caught by the launcher, never printed.
struct Aborted : Failure {
  Aborted() : Failure(Cause::peer_died, "stopped because another rank failed") {}
};

struct WaitPolicy {
  std::chrono::nanoseconds spin{20000};  ///< 0: not at all
  int first_looks = 500;                 ///< before the clock is read, where it spins
  std::chrono::nanoseconds timeout{std::chrono::seconds(600)};

  void set_timeout(double seconds);
};

/// The policy of a host whose ranks have so many threads together, on `cpus` CPUs; the deadline is MESHRT_TIMEOUT in
/// seconds, or 600. Throws Failure (Cause::usage) when MESHRT_TIMEOUT is not a positive number.
WaitPolicy wait_policy(int threads, int cpus);

inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Returns when `ready()` is true. `look()` is called about every millisecond of a long wait and may throw; `late()`
/// gives the message of the Failure (Cause::timeout) at the deadline: what was waited for, and who is late.
template <class Ready, class Look, class Late>
void wait_until(const WaitPolicy& policy, const std::atomic<uint32_t>& aborted, Ready ready, Look look, Late late);

/// Looks `times` times, after a pause each. A pause takes 15 ns (Zen 4) to 45 ns (Skylake and later), a flag that
/// another core has written 60 to 100 ns: a second pause between looks would only be late.
template <class Ready>
bool seen(Ready ready, int times) {
  for (int i = 0; i < times; ++i) {
    pause_core();
    if (ready()) return true;
  }
  return false;
}

/// The slow part of wait_until, by the clock.
class Patience {
 public:
  explicit Patience(const WaitPolicy& policy)
      : policy_(policy), start_(std::chrono::steady_clock::now()), next_look_(start_) {}

  bool spins() const { return now_ - start_ < policy_.spin; }
  void read_clock() { now_ = std::chrono::steady_clock::now(); }
  /// Gives the core away: for a turn or a nap, by how long the wait has lasted.
  void rest();
  /// True about once a millisecond, after the first.
  bool look_due();
  bool late() const { return now_ - start_ >= policy_.timeout; }

 private:
  const WaitPolicy& policy_;
  std::chrono::steady_clock::time_point start_, now_ = start_, next_look_;
};

template <class Ready, class Look, class Late>
void wait_until(const WaitPolicy& policy, const std::atomic<uint32_t>& aborted, Ready ready, Look look, Late late) {
  if (ready()) return;
  const Timed timed(&StepProfile::waiting);
  constexpr int looks_a_clock = 32;
  if (policy.spin.count() > 0 && seen(ready, policy.first_looks)) return;
  for (Patience patience(policy);;) {
    if (patience.spins()) {
      if (seen(ready, looks_a_clock)) return;
    } else {
      patience.rest();
      if (ready()) return;
    }
    patience.read_clock();
    if (aborted.load(std::memory_order_relaxed)) throw Aborted();
    if (!patience.look_due()) continue;
    look();
    if (patience.late() && !ready()) throw Failure(Cause::timeout, late());
  }
}

}  // namespace meshrt
