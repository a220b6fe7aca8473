#include "report/run_report.h"

#include <fmt/format.h>

#include <filesystem>

#include "control/heartbeat.h"
#include "meshrt/failure.h"
#include "report/gather.h"
#include "report/run_folder.h"
#include "report/summary.h"
#include "report/top_lines.h"
#include "system/seconds_since.h"
#include "system/tell.h"
#include "system/text_file.h"
#include "system/wait.h"

namespace meshrt {

namespace {

std::string in(const std::string& folder, const char* name) { return (std::filesystem::path(folder) / name).string(); }

// Before there is a recorder: its launcher takes away what this rank cannot, from the first moment on. False where the
// process has no launcher, or the run no folder.
bool tell_launcher(const std::string& folder, int rank) {
  return !folder.empty() && Heartbeat::tell_recorder(std::filesystem::absolute(flight_path(folder, rank)).string());
}

}  // namespace

// Rank 0 makes it, all get to know its name.
std::string RunReport::make_folder(const RunFile& run, const DriverOptions& options) {
  std::string folder;
  if (rank_.rank() == 0) {
    const std::string& named = options.run_folder.empty() ? run.folder.value : options.run_folder;
    folder = make_run_folder({named, options.runs, resumed_}, info_, run);
    if (!folder.empty()) {
      lock_ = lock_run_folder(folder);
      if (const std::string earlier = resumed_ == 0 ? set_aside_earlier(folder, options.program_folder) : "";
          !earlier.empty())
        set_aside_ = fmt::format("what an earlier run has left in {} is in {} now", folder, earlier);
      drop_further_flights(folder, rank_.ranks());
      describe_run(folder, options.program_folder, run, resumed_ > 0);
    }
  }
  return text_of_rank_0(rank_, "run folder", folder);
}

RunReport::RunReport(Rank& rank, const ProgramInfo& info, const RunFile& run, const DriverOptions& options,
                     int64_t resumed)
    : rank_(rank),
      info_(info),
      profiled_(run.log.profile.value && rank.rank() == 0),
      resumed_(resumed),
      folder_(make_folder(run, options)),
      program_folder_(options.program_folder),
      launched_(tell_launcher(folder_, rank.rank())),
      flight_(folder_, rank.rank(), rank.ranks(), info) {
  if (!run.log.trace.given()) return;
  if (run.log.trace.value.first > run.train.steps.value)
    throw run.error(run.log.trace.mark,
                    fmt::format("the run has {} steps, none of those to be traced", run.train.steps.value));
  const Given<std::string>& file = run.log.trace_file;
  if (!file.given() && folder_.empty())
    throw run.error(run.log.trace.mark, "the trace has no place to go: this run has no folder",
                    "`file: out/trace.json` beside `steps`");
  trace_.emplace(rank, info, run.log.trace.value, file.given() ? file.value : in(folder_, "trace.json"));
}

void RunReport::watch(const std::function<void()>& steps) {
  try {
    steps();
  } catch (const Aborted&) {
    throw;  // another rank has failed: this one was only stopped
  } catch (const std::exception& error) {
    flight_.finish(error.what());
    if (!launched_) append_line(log_of_run(folder_), fmt::format("rank {}: {}", rank_.rank(), error.what()));
    throw;
  }
  flight_.finish("");
}

StepProfile RunReport::step(int64_t step, const std::function<void()>& run) {
  flight_.step(step);
  StepProfile profile;
  if (trace_) profile.events = trace_->events_of(step);
  if (profiled_ && step > resumed_ + 1) profile.lines = &lines_;
  const bool counted = step <= resumed_ + 2;  // every step sends the same
  const auto start = std::chrono::steady_clock::now();
  {
    const Profiling profiling(profiled_ || profile.events || counted ? &profile : nullptr);
    const Timed timed(&StepProfile::step);
    run();
    at_line(nullptr);
  }
  if (counted) sent_ = profile.sent;
  if (step == resumed_ + 1) return profile;  // the first touches what the others find in place
  seconds_ += seconds_since(start);
  ++steps_;
  return profile;
}

std::string RunReport::trace_news() const { return fmt::format("the trace is in {}", trace_->path()); }

std::string RunReport::after(int64_t step) { return trace_ && trace_->after(step) ? trace_news() : ""; }

/// What meshc has said of the program; empty where it has said nothing.
std::string RunReport::plan() const {
  if (program_folder_.empty()) return "";
  try {
    return read_text(in(program_folder_, "plan.json"));
  } catch (const Failure& failure) {
    tell("warning: {}; nothing is compared with it\n", failure.what());
    return "";
  }
}

std::vector<std::string> RunReport::finish(int64_t copies) {
  std::vector<std::string> news;
  if (trace_ && trace_->finish()) news.push_back(trace_news());
  if (steps_ == 0) return news;
  const Measured measured = most_of_all(rank_, seconds_ / static_cast<double>(steps_), sent_, copies);
  if (rank_.rank() != 0) return news;
  const std::vector<TopLine> lines = top_lines(lines_, steps_);
  for (const std::string& text : top_lines_text(lines)) news.push_back(text);
  const auto predicted = read_prediction(plan());
  if (!predicted && folder_.empty()) return news;
  news.push_back(summary_text(predicted, measured));
  if (folder_.empty()) return news;
  offer_text(in(folder_, "summary.json"), summary_json(predicted, measured, lines, info_));
  news.push_back(fmt::format("this run is kept in {}", folder_));
  return news;
}

}  // namespace meshrt
