// profile.h: where the time of a rank's step goes, as far as the runtime sees it: products, attention, collectives, and
// waiting for other ranks within those. What is left are the program's own loop nests. A run asks for it
// (`log.profile`); otherwise a call costs the test of a pointer.
#pragma once
#include <chrono>

namespace meshrt {

/// Seconds by what they went to. `collectives` includes `waiting`.
struct StepProfile {
  double step = 0, products = 0, attention = 0, collectives = 0, waiting = 0;
};

/// What this thread's rank measures into; null: nothing.
StepProfile*& thread_profile();

/// Adds the time of a scope to one part.
class Timed {
 public:
  explicit Timed(double StepProfile::*part) : profile_(thread_profile()), part_(part) {
    if (profile_) start_ = Clock::now();
  }
  ~Timed() {
    if (profile_) profile_->*part_ += std::chrono::duration<double>(Clock::now() - start_).count();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  StepProfile* profile_;
  double StepProfile::*part_;
  Clock::time_point start_;
};

/// Measures into a profile while it lives.
class Profiling {
 public:
  explicit Profiling(StepProfile* profile) : before_(thread_profile()) { thread_profile() = profile; }
  ~Profiling() { thread_profile() = before_; }
  Profiling(const Profiling&) = delete;
  Profiling& operator=(const Profiling&) = delete;

 private:
  StepProfile* before_;
};

}  // namespace meshrt
