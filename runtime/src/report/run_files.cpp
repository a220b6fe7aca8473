#include "report/run_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "files/parsed_json.h"
#include "meshrt/failure.h"
#include "report/run_folder.h"
#include "system/tell.h"
#include "system/text_file.h"

namespace meshrt {

namespace {

namespace fs = std::filesystem;

bool is_later(const nlohmann::json& line, int64_t step) {
  const auto found = line.find("step");
  return found != line.end() && found->is_number() && found->get<int64_t>() > step;
}

/// How much of a file of JSON lines, from its beginning, is of the runs before and stays, so that the file holds the
/// curve of one run; that much of it is not written again, which losing power could cost. `curve` gets what stays.
int64_t lines_up_to(const std::string& path, int64_t step, Curve& curve) {
  struct Stretch {
    int64_t begin, end;
  };
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return 0;  // a pipe would never end
  std::vector<Stretch> kept;
  int64_t at = 0;
  read_lines(path, [&](std::string_view line, bool whole) {
    const int64_t begin = at;
    at += static_cast<int64_t>(line.size()) + (whole ? 1 : 0);
    const auto json = parsed_json(line);
    if (!whole || !json.is_object() || is_later(json, step)) return;
    curve.add_line(json);
    if (!kept.empty() && kept.back().end == begin) kept.back().end = at;
    else kept.push_back({begin, at});
  });
  if (kept.empty()) return 0;
  if (kept.size() == 1 && kept.front().begin == 0) return kept.front().end;
  // Something between them has to go, as what a crash has left.
  const std::string text = read_text(path);
  std::string rest;
  for (const auto& [begin, end] : kept) rest += text.substr(begin, end - begin);
  write_text(path, rest, Durable::yes);
  return static_cast<int64_t>(rest.size());
}

/// A file that the user has named by mistake is not lost: whatever is no log of a run stays.
void require_log(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored) || fs::file_size(path, ignored) == 0) return;
  std::ifstream file(path);
  std::string head;
  std::getline(file, head);
  if (!parsed_json(head).is_object())
    throw Failure(
        Cause::data,
        fmt::format("`{}` is no log of a run, and `log.jsonl` does not write over it: name another file", path));
}

/// How long a text is without the half line that a crash may have left.
int64_t whole_lines(const std::string& path) {
  int64_t length = 0;
  read_lines(path, [&](std::string_view line, bool whole) {
    if (whole) length += static_cast<int64_t>(line.size()) + 1;
  });
  return length;
}

std::string in(const std::string& folder, const std::string& name) { return (fs::path(folder) / name).string(); }

}  // namespace

RunFiles::RunFiles(Options options, const std::string& head)
    : options_(std::move(options)), curve_(options_.metrics.empty() ? "" : options_.metrics.front()) {
  const bool resumed = options_.resumed > 0;
  const auto add_json = [&](const std::string& path, Curve& curve) {
    json_.emplace_back(path, resumed ? lines_up_to(path, options_.resumed, curve) : 0, head + "\n");
  };
  Curve elsewhere("");
  if (!options_.jsonl.empty()) {
    require_log(options_.jsonl);
    add_json(options_.jsonl, elsewhere);
  }
  if (options_.folder.empty()) return;
  add_json(in(options_.folder, "metrics.jsonl"), curve_);
  const std::string text = log_of_run(options_.folder);
  text_.emplace(text, resumed ? whole_lines(text) : 0);
  // One for each start of the run. TensorBoard reads them in the order of their names, and a later one replaces what an
  // earlier one says of its steps.
  events_.emplace(in(options_.folder, fmt::format("events.out.tfevents.{:010}.meshwright", options_.resumed)));
}

RunFiles::~RunFiles() { draw(); }

void RunFiles::metrics(const std::string& json_line, int64_t step, Kind kind, std::span<const double> numbers,
                       std::span<const double> norms) {
  for (GrowingFile& file : json_) file.add(json_line + "\n");
  if (!events_) return;
  std::vector<Scalar> scalars;
  for (size_t m = 0; m < numbers.size(); ++m)
    scalars.push_back(
        {fmt::format("{}/{}", options_.metrics[m], kind == Kind::train ? "train" : "validation"), numbers[m]});
  for (size_t i = 0; i < norms.size(); ++i) scalars.push_back({"watch/" + options_.watched[i], norms[i]});
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  events_->write(step, std::chrono::duration<double>(now).count(), scalars);
  if (numbers.empty()) return;
  if (kind == Kind::train) curve_.add_training(step, numbers.front());
  else curve_.add_validation(step, numbers.front());
  if (Clock::now() - drawn_ < std::chrono::seconds(30)) return;
  draw();
  drawn_ = Clock::now();
}

void RunFiles::text(const std::string& line) {
  if (text_) text_->add(line + "\n");
}

void RunFiles::draw() {
  if (options_.folder.empty()) return;
  const std::string picture = curve_.picture();
  if (picture.empty()) return;
  try {
    write_text(in(options_.folder, "loss.svg"), picture);
  } catch (const Failure& failure) {
    if (!told_) tell("warning: {}; the run goes on\n", failure.what());
    told_ = true;
  }
}

}  // namespace meshrt
