#include "meshrt/log.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "meshrt/failure.h"

namespace meshrt {

namespace {

using Json = nlohmann::ordered_json;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool is_terminal(std::FILE* file) {
  const char* term = std::getenv("TERM");
  return isatty(fileno(file)) != 0 && (term == nullptr || std::strcmp(term, "dumb") != 0);
}

size_t terminal_columns(std::FILE* file) {
  winsize size{};
  return ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string number_text(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  return std::abs(value) < 1000 ? fmt::format("{:.4f}", value) : fmt::format("{:.5g}", value);
}

Json metrics_json(const std::vector<std::string>& names, std::span<const double> metrics) {
  Json object = Json::object();
  for (size_t i = 0; i < names.size(); ++i) object[names[i]] = metrics[i];  // not finite: null
  return object;
}

void add(StepProfile& sum, const StepProfile& one) {
  for (double StepProfile::*part : {&StepProfile::step, &StepProfile::products, &StepProfile::attention,
                                    &StepProfile::collectives, &StepProfile::waiting})
    sum.*part += one.*part;
}

/// Milliseconds of a step by what they went to; they add up to the step.
std::vector<std::pair<const char*, double>> breakdown(const StepProfile& sum, int64_t steps) {
  const double scale = 1e3 / static_cast<double>(steps);
  return {{"products", sum.products * scale},
          {"attention", sum.attention * scale},
          {"nests", (sum.step - sum.products - sum.attention - sum.collectives) * scale},
          {"collectives", (sum.collectives - sum.waiting) * scale},
          {"waiting", sum.waiting * scale}};
}

}  // namespace

std::string clock_text(double seconds) {
  const auto total = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  const int64_t hours = total / 3600, minutes = total / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, total % 60)
                   : fmt::format("{}:{:02}", minutes, total % 60);
}

std::string size_text(int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  return bytes < 1'000'000       ? fmt::format("{:.1f} kB", size / 1e3)
         : bytes < 1'000'000'000 ? fmt::format("{:.1f} MB", size / 1e6)
                                 : fmt::format("{:.2f} GB", size / 1e9);
}

std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) digits.insert(at, ",");
  return digits;
}

Log::Log(const ProgramInfo& info, LogOptions options)
    : names_(info.metrics), options_(std::move(options)), json_(nullptr, std::fclose) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool terminal = is_terminal(options_.out);
  live_ = terminal;
  color_ = options_.color == Color::always ||
           (options_.color == Color::automatic && terminal && (no_color == nullptr || *no_color == '\0'));
  if (!options_.jsonl.empty()) open_json(info);
  window_step_ = last_step_ = options_.resumed;
  start_ = window_start_ = last_shown_ = Clock::now();
}

// A run that goes on leaves the lines up to where it does, so that the file holds the curve of one run.
void Log::open_json(const ProgramInfo& info) {
  std::error_code ignored;  // fopen tells what is wrong
  std::filesystem::create_directories(std::filesystem::path(options_.jsonl).parent_path(), ignored);
  std::string before;
  if (options_.resumed > 0) {
    std::ifstream file(options_.jsonl);
    for (std::string line; std::getline(file, line);) {
      const Json json = Json::parse(line, nullptr, false);
      if (json.is_object() && (!json.contains("step") || json.value("step", options_.resumed) <= options_.resumed))
        before += line + "\n";
    }
  }
  json_.reset(std::fopen(options_.jsonl.c_str(), "w"));
  if (!json_)
    throw Failure(Cause::environment, fmt::format("cannot write `{}`: {}", options_.jsonl, std::strerror(errno)));
  Json mesh = Json::object();
  for (const MeshAxis& axis : info.mesh) mesh[axis.name] = axis.size;
  Json head = {{"schema", 1},           {"program", info.name}, {"spec_hash", info.spec_hash},
               {"layout", info.layout}, {"mesh", mesh},         {"steps", options_.steps}};
  if (options_.resumed > 0) head["resumed"] = options_.resumed;
  write_json(before + head.dump());
}

Log::~Log() {
  if (line_open_) std::fputc('\n', options_.out);
  std::fflush(options_.out);
}

void Log::step(int64_t step, std::span<const double> metrics) {
  last_step_ = step;
  last_.assign(metrics.begin(), metrics.end());
  const double window_seconds = seconds_since(window_start_);
  const bool last = step == options_.steps, due = step % options_.every == 0 || last;
  const bool refresh = live_ ? last || seconds_since(last_shown_) > 0.1 : due;
  if (!due && !refresh) return;

  const double per_step = window_seconds / static_cast<double>(std::max<int64_t>(1, step - window_step_));
  smooth_ = smooth_ == 0 ? per_step : 0.7 * smooth_ + 0.3 * per_step;
  training_seconds_ += window_seconds;
  window_start_ = Clock::now();
  window_step_ = step;
  if (refresh) {
    last_shown_ = window_start_;
    std::string text = fmt::format("step {}/{}  {}  {}", step, options_.steps, metrics_text(metrics),
                                   rate_text(live_ ? smooth_ : per_step));
    if (!last) text += "  ETA " + clock_text(smooth_ * static_cast<double>(options_.steps - step));
    show_line(text, !live_);
  }
  if (due && json_) {
    Json line = {{"step", step}};
    line.update(metrics_json(names_, metrics));
    line["seconds"] = training_seconds_;
    line["seconds_per_step"] = per_step;
    line[options_.unit + "_per_second"] = options_.units_per_step / per_step;
    if (window_profiled_ > 0)
      for (const auto& [part, milliseconds] : breakdown(window_profile_, window_profiled_))
        line["breakdown_ms"][part] = milliseconds;
    window_profile_ = {};
    window_profiled_ = 0;
    write_json(line.dump());
  }
}

void Log::profile(const StepProfile& step) {
  add(window_profile_, step);
  ++window_profiled_;
  if (last_step_ == options_.resumed) return;  // the first step touches what the others find in place
  add(profile_, step);
  ++profiled_;
}

void Log::validation(int64_t step, std::span<const double> metrics, int64_t batches, double seconds) {
  validation_step_ = step;
  validation_.assign(metrics.begin(), metrics.end());
  begin_line();
  fmt::print(options_.out, "{}  {}  {}\n", strong(fmt::format("validation at step {}", step)), metrics_text(metrics),
             faint(fmt::format("({} batches, {:.1f} s)", batches, seconds)));
  std::fflush(options_.out);
  if (json_)
    write_json(
        Json{{"step", step}, {"validation", metrics_json(names_, metrics)}, {"batches", batches}, {"seconds", seconds}}
            .dump());
  window_start_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void Log::note(const std::string& text) {
  begin_line();
  fmt::print(options_.out, "{}\n", text);
  std::fflush(options_.out);
}

void Log::summary() {
  const int64_t steps = last_step_ - options_.resumed;
  std::string text = fmt::format("{} steps in {}", grouped(steps), clock_text(seconds_since(start_)));
  if (!last_.empty()) text += fmt::format(": {}", metrics_text(last_));
  if (!validation_.empty()) text += fmt::format(", validation {}", metrics_text(validation_));
  if (training_seconds_ > 0)
    text += ", " +
            rate_text(training_seconds_ / static_cast<double>(std::max<int64_t>(1, window_step_ - options_.resumed)));
  note(strong("done: ") + text);
  if (profiled_ == 0) return;
  std::vector<std::string> parts;
  for (const auto& [part, milliseconds] : breakdown(profile_, profiled_))
    parts.push_back(fmt::format("{} {:.2f} ms", part, milliseconds));
  note(fmt::format("a step of rank 0: {}", fmt::join(parts, ", ")));
}

// Ends a progress line that is to be overwritten.
void Log::begin_line() {
  if (line_open_) std::fputs("\r\x1b[K", options_.out);
  line_open_ = false;
}

void Log::show_line(const std::string& text, bool final) {
  begin_line();
  if (final) fmt::print(options_.out, "{}\n", text);
  else fmt::print(options_.out, "{}", text.substr(0, terminal_columns(options_.out) - 1));
  line_open_ = !final;
  std::fflush(options_.out);
}

void Log::write_json(const std::string& line) {
  fmt::print(json_.get(), "{}\n", line);
  if (std::fflush(json_.get()) != 0)
    throw Failure(Cause::environment, fmt::format("cannot write `{}`: {}", options_.jsonl, std::strerror(errno)));
}

std::string Log::metrics_text(std::span<const double> metrics) const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < names_.size(); ++i) parts.push_back(fmt::format("{} {}", names_[i], number_text(metrics[i])));
  return fmt::format("{}", fmt::join(parts, "  "));
}

std::string Log::rate_text(double seconds_per_step) const {
  std::string text = seconds_per_step < 0.01 ? fmt::format("{:.2f} ms/step", seconds_per_step * 1e3)
                     : seconds_per_step < 10 ? fmt::format("{:.0f} ms/step", seconds_per_step * 1e3)
                                             : fmt::format("{:.1f} s/step", seconds_per_step);
  if (options_.units_per_step > 0)
    text += fmt::format("  {} {}/s", grouped(std::llround(options_.units_per_step / seconds_per_step)), options_.unit);
  return text;
}

std::string Log::strong(const std::string& text) const { return color_ ? "\x1b[1m" + text + "\x1b[0m" : text; }
std::string Log::faint(const std::string& text) const { return color_ ? "\x1b[2m" + text + "\x1b[0m" : text; }

}  // namespace meshrt
