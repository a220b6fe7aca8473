// profile.h: where the time of a rank's step goes, as far as the runtime sees it: products, attention, collectives, and
// waiting for other ranks within those. What is left are the program's own loop nests. A run asks for it
// (`log.profile`, `log.trace`); otherwise a call costs the test of a pointer.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace meshrt {

struct TraceEvent;
class LineCosts;

/// Seconds by what they went to. `collectives` includes `waiting`; `calls` is the same time, a scope for each call of
/// the program, which knows its name; `data`, before the step, is until its batch is there.
struct StepProfile {
  double data = 0, step = 0, products = 0, attention = 0, collectives = 0, waiting = 0, calls = 0;
  double polled = 0;   ///< of `collectives`, what poll() did; products and attention count without it
  double actions = 0;  ///< of a pipeline's row, what they compute and wait for
  int64_t sent = 0;    ///< bytes, by the formulas of collectives.h
  std::vector<TraceEvent>* events = nullptr;  ///< where every scope is noted by itself; null: nowhere
  LineCosts* lines = nullptr;                 ///< where each line of the spec has its own; null: nowhere
};

/// Seconds that went to one line of the spec, and the parts of them that a StepProfile knows.
struct LineCost {
  double seconds = 0, products = 0, attention = 0, collectives = 0, waiting = 0;
};

/// What each line of the spec costs, over all steps. What a program does between two calls of at_line belongs to the
/// first of them.
class LineCosts {
 public:
  /// A line begins, as in at_line; nullptr: none does, the step ends.
  void begin(const char* line, const StepProfile& so_far);
  const std::map<const char*, LineCost>& lines() const { return lines_; }

 private:
  std::map<const char*, LineCost> lines_;
  const char* line_ = nullptr;
  std::chrono::steady_clock::time_point start_;
  LineCost before_;  // the parts when the line began
};

/// What one scope of a trace did.
struct TraceLabel {
  std::string name;
  int site = -1;      ///< place in ProgramInfo::sites; -1: none
  int64_t bytes = 0;  ///< that a collective works on
};

struct TraceEvent {
  double StepProfile::*part;
  std::chrono::steady_clock::time_point start, end;
  TraceLabel label;
};

/// What this thread's rank measures into; null: nothing.
StepProfile*& thread_profile();

/// What follows comes from this line of the spec, "gpt.mesh:24  score = dot[head_dim](q, k)", a literal.
inline void at_line(const char* line) {
  if (StepProfile* const profile = thread_profile(); profile && profile->lines) profile->lines->begin(line, *profile);
}

struct NoLabel {
  TraceLabel operator()() const { return {}; }
};

/// Adds the time of a scope to one part. `describe()` gives its label; it is only asked for a trace.
template <class Describe = NoLabel>
class Timed {
 public:
  explicit Timed(double StepProfile::*part, Describe describe = {})
      : profile_(thread_profile()), part_(part), describe_(std::move(describe)) {
    if (!profile_) return;
    polled_ = profile_->polled;
    start_ = Clock::now();
  }
  ~Timed() {
    if (!profile_) return;
    const Clock::time_point end = Clock::now();
    profile_->*part_ += std::chrono::duration<double>(end - start_).count();
    if (part_ == &StepProfile::products || part_ == &StepProfile::attention)
      profile_->*part_ -= profile_->polled - polled_;
    if (profile_->events) profile_->events->push_back({part_, start_, end, describe_()});
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  StepProfile* profile_;
  double StepProfile::*part_;
  Describe describe_;
  Clock::time_point start_;
  double polled_ = 0;
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
