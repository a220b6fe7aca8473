// run_files.h: the files that grow while a run goes on: JSON lines, what was printed, metrics for TensorBoard, and the
// curve of the loss, which is drawn anew now and then.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/curve.h"
#include "report/event_file.h"
#include "system/growing_file.h"

namespace meshrt {

class RunFiles {
 public:
  struct Options {
    std::string folder;                ///< of the run; empty: none
    std::string jsonl;                 ///< JSON lines elsewhere; empty: none
    int64_t resumed = 0;               ///< steps done by earlier runs: their lines stay, later ones are taken out
    std::vector<std::string> metrics;  ///< the curve shows the first
    std::vector<std::string> watched;
  };
  /// `head` is a JSON line. Throws Failure (Cause::environment) when a file cannot be opened, or an earlier run's not
  /// be read.
  RunFiles(Options options, const std::string& head);
  /// Draws the curve.
  ~RunFiles();

  bool has_json() const { return !json_.empty(); }
  enum class Kind { train, validation };
  /// A JSON line; for TensorBoard and the curve its kind and the numbers of its metrics, and the norms that are
  /// watched.
  void metrics(const std::string& json_line, int64_t step, Kind kind, std::span<const double> numbers,
               std::span<const double> norms = {});
  /// What is printed.
  void text(const std::string& line);

 private:
  void draw();

  using Clock = std::chrono::steady_clock;
  Options options_;
  std::vector<GrowingFile> json_;
  std::optional<GrowingFile> text_;
  std::optional<EventFile> events_;
  Curve curve_;
  Clock::time_point drawn_ = Clock::now();
  bool told_ = false;  // that the curve cannot be written
};

}  // namespace meshrt
