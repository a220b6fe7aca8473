#include "meshrt/log.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "report/run_files.h"
#include "system/seconds_since.h"
#include "system/tell.h"
#include "system/terminal.h"

namespace meshrt {

namespace {

using Json = nlohmann::ordered_json;

size_t terminal_columns(std::FILE* file) {
  winsize size{};
  return ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// Four significant digits, zeros too, so that a column of them stays where it is; all those before the point.
std::string number_text(double value) {
  if (std::abs(value) >= 999.95 && std::abs(value) < 1e6) return fmt::format("{:.0f}", value);
  return value == 0 ? "0" : fmt::format("{:#.4g}", value);
}

Json json_of(const std::vector<std::string>& names, std::span<const double> numbers) {
  Json object = Json::object();
  for (size_t i = 0; i < names.size(); ++i) object[names[i]] = numbers[i];  // not finite: null
  return object;
}

/// The first JSON line.
Json head_of(const ProgramInfo& info, const LogOptions& options) {
  Json mesh = Json::object();
  for (const MeshAxis& axis : info.mesh) mesh[axis.name] = axis.size;
  Json head = {{"schema", 1},           {"program", info.name}, {"spec_hash", info.spec_hash},
               {"layout", info.layout}, {"mesh", mesh},         {"steps", options.steps}};
  if (!options.checkpoints.empty()) head["checkpoints"] = options.checkpoints;
  if (options.resumed > 0) head["resumed"] = options.resumed;
  return head;
}

void add(StepProfile& sum, const StepProfile& one) {
  for (double StepProfile::*part : {&StepProfile::data, &StepProfile::step, &StepProfile::products,
                                    &StepProfile::attention, &StepProfile::collectives, &StepProfile::waiting})
    sum.*part += one.*part;
}

/// Milliseconds of a step by what they went to; they add up to the step.
std::vector<std::pair<const char*, double>> breakdown(const StepProfile& sum, int64_t steps) {
  const double scale = 1e3 / static_cast<double>(steps);
  return {{"data", sum.data * scale},
          {"products", sum.products * scale},
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

std::string bytes_text(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto size = static_cast<double>(bytes) / 1024;
  const char* unit = "KiB";
  for (const char* greater : {"MiB", "GiB", "TiB"}) {
    if (size < 1024) break;
    size /= 1024, unit = greater;
  }
  return fmt::format("{:.1f} {}", size, unit);
}

std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) digits.insert(at, ",");
  return digits;
}

Log::Log(const ProgramInfo& info, LogOptions options) : names_(info.metrics), options_(std::move(options)) {
  live_ = is_terminal(options_.out);
  color_ = shows_color(options_.out, options_.color);
  files_ = std::make_unique<RunFiles>(
      RunFiles::Options{options_.folder, options_.jsonl, options_.resumed, names_, options_.watched},
      head_of(info, options_).dump());
  window_step_ = last_step_ = options_.resumed;
  sums_.resize(names_.size());
  if (options_.mean && !options_.course.sums.empty()) summed_ = options_.course.unlogged;
  for (size_t i = 0; i < names_.size(); ++i)
    if (const auto sum = options_.course.sums.find(names_[i]); summed_ > 0 && sum != options_.course.sums.end())
      sums_[i] = sum->second;
  start_ = window_start_ = last_shown_ = Clock::now();
}

Log::~Log() {
  if (line_open_) std::fputc('\n', options_.out);
  std::fflush(options_.out);
}

void Log::step(int64_t step, std::span<const double> metrics, std::span<const double> norms) {
  last_step_ = step;
  if (summed_ == 0) std::ranges::fill(sums_, 0);
  for (size_t i = 0; i < metrics.size(); ++i) sums_[i] += metrics[i];
  told_of_ = ++summed_;
  last_ = options_.mean ? means() : std::vector(metrics.begin(), metrics.end());
  const double window_seconds = seconds_since(window_start_);
  const bool last = step == options_.steps, due = step % options_.every == 0 || last;
  const bool refresh = live_ ? last || seconds_since(last_shown_) > 0.1 : due;
  if (!due && !refresh) return;

  const double per_step = window_seconds / static_cast<double>(std::max<int64_t>(1, step - window_step_));
  smooth_ = smooth_ == 0 ? per_step : 0.7 * smooth_ + 0.3 * per_step;
  training_seconds_ += window_seconds;
  window_start_ = Clock::now();
  window_step_ = step;
  std::string text =
      fmt::format("step {}/{}  {}  {}", step, options_.steps, last_text(), rate_text(live_ ? smooth_ : per_step));
  if (!last) text += "  ETA " + clock_text(smooth_ * static_cast<double>(options_.steps - step));
  text += norms_text(norms);
  if (due) files_->text(text);
  if (refresh) {
    last_shown_ = window_start_;
    show_line(text, !live_);
  }
  if (due && files_->has_json()) {
    Json line = {{"step", step}};
    line.update(json_of(names_, last_));
    if (options_.mean) line["mean_of"] = told_of_;
    if (!norms.empty()) line["watch"] = json_of(options_.watched, norms);
    line["seconds"] = training_seconds_;
    line["seconds_per_step"] = per_step;
    line[options_.unit + "_per_second"] = options_.units_per_step / per_step;
    if (window_profiled_ > 0)
      for (const auto& [part, milliseconds] : breakdown(window_profile_, window_profiled_))
        line["breakdown_ms"][part] = milliseconds;
    window_profile_ = {};
    window_profiled_ = 0;
    files_->metrics(line.dump(), step, RunFiles::Kind::train, last_, norms);
  }
  if (due) summed_ = 0;
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
  const std::string what = fmt::format("validation at step {}", step),
                    how = fmt::format("({} batches, {:.1f} s)", batches, seconds);
  begin_line();
  tell_on(options_.out, "{}  {}  {}\n", strong(what), metrics_text(metrics), faint(how));
  std::fflush(options_.out);
  files_->text(fmt::format("{}  {}  {}", what, metrics_text(metrics), how));
  if (files_->has_json())
    files_->metrics(
        Json{{"step", step}, {"validation", json_of(names_, metrics)}, {"batches", batches}, {"seconds", seconds}}
            .dump(),
        step, RunFiles::Kind::validation, metrics);
  window_start_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void Log::note_unlogged(Course& course) const {
  if (!options_.mean || summed_ == 0) return;
  course.unlogged = summed_;
  for (size_t i = 0; i < names_.size(); ++i) course.sums[names_[i]] = sums_[i];
}

void Log::note(const std::string& text) { note("", text); }

void Log::note(const std::string& head, const std::string& text) {
  begin_line();
  tell_on(options_.out, "{}{}\n", strong(head), text);
  std::fflush(options_.out);
  files_->text(head + text);
}

void Log::summary() {
  const int64_t steps = last_step_ - options_.resumed;
  std::string text = fmt::format("{} steps in {}", grouped(steps), clock_text(seconds_since(start_)));
  if (!last_.empty()) text += fmt::format(": {}", last_text());
  if (!validation_.empty()) text += fmt::format(", validation {}", metrics_text(validation_));
  if (training_seconds_ > 0)
    text += ", " +
            rate_text(training_seconds_ / static_cast<double>(std::max<int64_t>(1, window_step_ - options_.resumed)));
  note("done: ", text);
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
  if (final) tell_on(options_.out, "{}\n", text);
  else tell_on(options_.out, "{}", text.substr(0, terminal_columns(options_.out) - 1));
  line_open_ = !final;
  std::fflush(options_.out);
}

std::string Log::metrics_text(std::span<const double> metrics) const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < names_.size(); ++i) parts.push_back(fmt::format("{} {}", names_[i], number_text(metrics[i])));
  return fmt::format("{}", fmt::join(parts, "  "));
}

std::vector<double> Log::means() const {
  std::vector<double> means = sums_;
  for (double& mean : means) mean /= static_cast<double>(summed_);
  return means;
}

std::string Log::last_text() const {
  std::string text = metrics_text(last_);
  if (options_.mean) text += fmt::format("  (mean of {} step{})", told_of_, told_of_ == 1 ? "" : "s");
  return text;
}

// Last in the line: a narrow terminal cuts them off, and nothing else.
std::string Log::norms_text(std::span<const double> norms) const {
  std::string text;
  for (size_t i = 0; i < norms.size(); ++i) text += fmt::format("  {} {}", options_.watched[i], number_text(norms[i]));
  return text;
}

std::string Log::rate_text(double seconds_per_step) const {
  std::string text = seconds_per_step < 0.01 ? fmt::format("{:.2f} ms/step", seconds_per_step * 1e3)
                     : seconds_per_step < 10 ? fmt::format("{:.0f} ms/step", seconds_per_step * 1e3)
                                             : fmt::format("{:.1f} s/step", seconds_per_step);
  if (options_.units_per_step > 0)
    text += fmt::format("  {} {}/s", grouped(std::llround(options_.units_per_step / seconds_per_step)), options_.unit);
  return text;
}

std::string Log::strong(const std::string& text) const {
  return color_ && !text.empty() ? "\x1b[1m" + text + "\x1b[0m" : text;
}
std::string Log::faint(const std::string& text) const { return color_ ? "\x1b[2m" + text + "\x1b[0m" : text; }

}  // namespace meshrt
