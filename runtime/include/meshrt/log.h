// log.h: what a run tells: a progress line that is rewritten on a terminal, a plain line every so many steps otherwise,
// the same in the files of its folder. Only rank 0 has a log.
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "meshrt/checkpoint.h"
#include "meshrt/color.h"
#include "meshrt/profile.h"
#include "meshrt/program_info.h"

namespace meshrt {

class RunFiles;

struct LogOptions {
  std::FILE* out = stdout;
  Color color = Color::automatic;
  int64_t every = 10;         ///< steps between plain lines, and between JSON lines
  std::string jsonl;          ///< path of a file of JSON lines; empty: none
  std::string folder;         ///< of the run, for its files; empty: none
  std::string checkpoints;    ///< folder of its checkpoints, noted with the metrics
  int64_t steps = 0;          ///< of the whole run, for the time that is left
  int64_t resumed = 0;        ///< steps done by earlier runs: their JSON lines stay, later ones are taken out
  double units_per_step = 0;  ///< for the rate
  std::string unit = "samples";
  /// Names of norms that are told beside the metrics.
  std::vector<std::string> watched;
  bool mean = false;   ///< lines tell the means of metrics over the steps since the line before
  Course course = {};  ///< of the run that is resumed: what its last line has not told
};

class Log {
 public:
  /// Creates the files and the folders above them. Throws Failure (Cause::environment) when they cannot be written.
  Log(const ProgramInfo& info, LogOptions options);
  ~Log();

  /// After step `step`. metrics[i] belongs to info.metrics[i], norms[i] to LogOptions::watched[i]. Steps count for the
  /// means of metrics also where they are no line.
  void step(int64_t step, std::span<const double> metrics, std::span<const double> norms = {});
  /// What the step to be told next, one of those of a run with `log.profile`, went to. Told as a mean over the steps
  /// since the JSON line before, and in the summary over all but the first.
  void profile(const StepProfile& step);
  /// After an evaluation of `batches` batches at step `step` that took `seconds`, which do not count for the rate.
  void validation(int64_t step, std::span<const double> metrics, int64_t batches, double seconds);
  /// Adds the steps since the last line to what a run has seen of itself.
  void note_unlogged(Course& course) const;
  /// A line of its own.
  void note(const std::string& text);
  void note(const std::string& head, const std::string& text);  ///< `head` stands out
  /// The last line: steps, time, last metrics, best validation.
  void summary();

 private:
  using Clock = std::chrono::steady_clock;
  void begin_line();
  void show_line(const std::string& text, bool final);
  std::vector<double> means() const;
  std::string metrics_text(std::span<const double> metrics) const;
  std::string last_text() const;
  std::string norms_text(std::span<const double> norms) const;
  std::string rate_text(double seconds_per_step) const;
  std::string strong(const std::string& text) const;
  std::string faint(const std::string& text) const;

  std::vector<std::string> names_;
  LogOptions options_;
  bool live_ = false, color_ = false, line_open_ = false;
  std::unique_ptr<RunFiles> files_;
  Clock::time_point start_, window_start_, last_shown_;
  int64_t window_step_ = 0, last_step_ = 0, validation_step_ = 0;
  double smooth_ = 0;            // seconds per step, for the progress line
  double training_seconds_ = 0;  // without evaluations
  StepProfile window_profile_, profile_;
  int64_t window_profiled_ = 0, profiled_ = 0;  // steps in each
  std::vector<double> last_, validation_;       // as they were told
  std::vector<double> sums_;                    // of metrics since the last line
  int64_t summed_ = 0, told_of_ = 0;            // steps that are in these, and in last_
};

/// "1:05", "12:30", "3:04:05": whole seconds for a person.
std::string clock_text(double seconds);

/// 1000 -> "1000 B", 1234567 -> "1.2 MiB"
std::string bytes_text(int64_t bytes);

/// 1234567 -> "1,234,567"
std::string grouped(int64_t number);

}  // namespace meshrt
