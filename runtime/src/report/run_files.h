// run_files.h: the files that grow while a run goes on: JSON lines, what was printed, metrics for TensorBoard, and the
// curve of the loss, which is drawn anew now and then.
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/event_file.h"

namespace meshrt {

/// A text file that is written line by line, each one on disk for others to see. When a line cannot be written, say on
/// a full disk, that is told once on stderr, and the run it tells of goes on without the file.
class GrowingFile {
 public:
  /// Begins with `before`. Throws Failure (Cause::environment) when the file cannot be made.
  GrowingFile(const std::string& path, const std::string& before);
  void line(const std::string& text);

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

class RunFiles {
 public:
  struct Options {
    std::string folder;                ///< of the run; empty: none
    std::string jsonl;                 ///< JSON lines elsewhere; empty: none
    int64_t resumed = 0;               ///< steps done by earlier runs: their lines stay, later ones are taken out
    std::vector<std::string> metrics;  ///< the curve shows the first
    std::vector<std::string> watched;
  };
  /// `head` is a JSON line.
  RunFiles(Options options, const std::string& head);
  /// Draws the curve.
  ~RunFiles();

  bool has_json() const { return !json_.empty(); }
  /// A JSON line; for TensorBoard `kind` ("train", "validation") and the numbers of its metrics, and the norms that are
  /// watched.
  void metrics(const std::string& json_line, int64_t step, const char* kind, std::span<const double> numbers,
               std::span<const double> norms = {});
  /// What is printed.
  void text(const std::string& line);
  void draw() const;

 private:
  using Clock = std::chrono::steady_clock;
  Options options_;
  std::vector<GrowingFile> json_;
  std::optional<GrowingFile> text_;
  std::optional<EventFile> events_;
  Clock::time_point drawn_ = Clock::now();
};

}  // namespace meshrt
