#include "report/run_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "meshrt/failure.h"
#include "report/curve.h"
#include "report/run_folder.h"
#include "report/text_file.h"

namespace meshrt {

namespace {

namespace fs = std::filesystem;

/// The lines of the runs before, so that the file holds the curve of one run.
std::string lines_up_to(const std::string& path, int64_t step) {
  std::string kept;
  std::istringstream lines(read_text(path));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.value("step", step) <= step) kept += line + "\n";
  }
  return kept;
}

std::string in(const std::string& folder, const std::string& name) { return (fs::path(folder) / name).string(); }

}  // namespace

GrowingFile::GrowingFile(const std::string& path, const std::string& before)
    : path_(path), file_(nullptr, std::fclose) {
  std::error_code ignored;  // fopen tells what is wrong
  fs::create_directories(fs::path(path).parent_path(), ignored);
  fs::resize_file(path, 0, ignored);
  file_.reset(std::fopen(path.c_str(), "a"));  // others may add to it
  if (!file_) throw Failure(Cause::environment, fmt::format("cannot write `{}`: {}", path, std::strerror(errno)));
  std::fwrite(before.data(), 1, before.size(), file_.get());
}

void GrowingFile::line(const std::string& text) {
  if (!file_) return;
  std::fwrite(text.data(), 1, text.size(), file_.get());
  std::fputc('\n', file_.get());
  if (std::fflush(file_.get()) == 0) return;
  fmt::print(stderr, "warning: cannot write `{}`: {}; the run goes on without it\n", path_, std::strerror(errno));
  file_.reset();
}

RunFiles::RunFiles(Options options, const std::string& head) : options_(std::move(options)) {
  const auto add_json = [&](const std::string& path) {
    json_.emplace_back(path, options_.resumed > 0 ? lines_up_to(path, options_.resumed) : "").line(head);
  };
  if (!options_.jsonl.empty()) add_json(options_.jsonl);
  if (options_.folder.empty()) return;
  add_json(in(options_.folder, "metrics.jsonl"));
  const std::string text = log_of_run(options_.folder);
  text_.emplace(text, options_.resumed > 0 ? read_text(text) : "");
  // One for each start of the run. TensorBoard reads them in the order of their names, and a later one replaces what an
  // earlier one says of its steps.
  events_.emplace(in(options_.folder, fmt::format("events.out.tfevents.{:010}.meshwright", options_.resumed)));
}

RunFiles::~RunFiles() {
  try {
    draw();
  } catch (const Failure&) {
    // The disk is full: metrics and checkpoints have told so.
  }
}

void RunFiles::metrics(const std::string& json_line, int64_t step, const char* kind, std::span<const double> numbers,
                       std::span<const double> norms) {
  for (GrowingFile& file : json_) file.line(json_line);
  if (!events_) return;
  std::vector<Scalar> scalars;
  for (size_t m = 0; m < numbers.size(); ++m)
    scalars.push_back({fmt::format("{}/{}", options_.metrics[m], kind), numbers[m]});
  for (size_t i = 0; i < norms.size(); ++i) scalars.push_back({"watch/" + options_.watched[i], norms[i]});
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  try {
    events_->write(step, std::chrono::duration<double>(now).count(), scalars);
    if (Clock::now() - drawn_ < std::chrono::seconds(30)) return;
    draw();
    drawn_ = Clock::now();
  } catch (const Failure& failure) {
    fmt::print(stderr, "warning: {}; the run goes on without it\n", failure.what());
    events_.reset();
  }
}

void RunFiles::text(const std::string& line) {
  if (text_) text_->line(line);
}

void RunFiles::draw() const {
  if (options_.folder.empty() || options_.metrics.empty()) return;
  const std::string picture = curve_picture(read_text(in(options_.folder, "metrics.jsonl")), options_.metrics.front());
  if (!picture.empty()) write_text(in(options_.folder, "loss.svg"), picture);
}

}  // namespace meshrt
