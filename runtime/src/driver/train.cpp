// The loop around a program.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "data/read_ahead.h"
#include "driver/checkpoints.h"
#include "driver/files_read.h"
#include "driver/finite_watch.h"
#include "driver/judge.h"
#include "driver/model_files.h"
#include "driver/outputs.h"
#include "driver/same_job.h"
#include "driver/skipped_steps.h"
#include "driver/start.h"
#include "driver/validator.h"
#include "driver/watched.h"
#include "meshrt/collectives.h"
#include "meshrt/driver.h"
#include "meshrt/failure.h"
#include "meshrt/finite.h"
#include "meshrt/gemm.h"
#include "meshrt/program.h"
#include "report/gather.h"
#include "report/run_report.h"
#include "system/seconds_since.h"
#include "system/tell.h"

namespace meshrt {

namespace {

using Clock = std::chrono::steady_clock;

LogOptions log_options(const ProgramInfo& info, const RunFile& run, const Batches& batches,
                       const DriverOptions& options, const RunReport& report, int64_t resumed, const Course& course) {
  LogOptions log;
  for (const size_t norm : watched_norms(info, run)) log.watched.push_back(info.watched[norm].name);
  log.out = options.out;
  log.color = options.color;
  log.every = run.log.every.value;
  log.mean = run.log.mean.value;
  log.course = course;
  log.jsonl = run.log.jsonl.value;
  log.folder = report.folder();
  log.checkpoints = run.checkpoint.folder.value;
  log.steps = run.train.steps.value;
  log.resumed = resumed;
  log.units_per_step = static_cast<double>(batches.units_per_batch());
  log.unit = batches.unit();
  return log;
}

void tell_left_out(Log& log, const char* section, const Batches& batches) {
  if (batches.left_out() == 0) return;
  log.note(fmt::format("{}: {} of {} samples are left out, with a line longer than its input", section,
                       grouped(batches.left_out()), grouped(batches.left_out() + batches.samples())));
}

/// What a rank finds in the data of the batch at `position` that is not finite; empty: nothing. Collective.
std::string bad_data(Rank& rank, const Batches& batches, int64_t position) {
  for (const std::string& found : gather_texts(rank, "data", batches.not_finite(position)))
    if (!found.empty()) return found;
  return "";
}

/// Looks for values that are not finite while it lives, in programs that can.
class Checking {
 public:
  explicit Checking(FiniteChecks* checks) : before_(finite_checks()) { finite_checks() = checks; }
  ~Checking() { finite_checks() = before_; }
  Checking(const Checking&) = delete;
  Checking& operator=(const Checking&) = delete;

 private:
  FiniteChecks* before_;
};

}  // namespace

/// Where the run goes on, and what the run file says that this leaves without effect.
void tell_resumed(Log& log, const RunFile& run, const std::string& from, int64_t step, const std::string& verdict) {
  log.note(fmt::format("goes on from {} after step {}", from, step));
  if (!run.train.params.empty()) log.note("train.params is not read: the checkpoint has the parameters");
  if (step >= run.train.steps.value)
    log.note(
        fmt::format("nothing is left to do of train.steps={}: give more, or begin anew with another checkpoint.dir",
                    run.train.steps.value));
  else if (!verdict.empty())
    log.note(fmt::format("nothing is left to do: {}; a longer train.stop.patience goes on", verdict));
}

/// The entry that is due after so many steps (EntryInfo::after_steps); null in a program that has none.
const EntryInfo* follower(const ProgramInfo& info) {
  const auto found = std::ranges::find_if(info.entries, [](const EntryInfo& one) { return one.after_steps > 0; });
  return found == info.entries.end() ? nullptr : &*found;
}

/// Whether an evaluation is due after a step that is not the last.
bool is_due(const Validation& validation, int64_t step) {
  return validation.every.given() && step % validation.every.value == 0;
}

void check_rate(const ProgramInfo& info, const RunFile& run) {
  const bool optimizes = info.rate != 0 || !info.sample_dim.empty();
  if (run.train.rate.given() && !optimizes)
    throw run.error(run.train.rate.mark, fmt::format("`{}` has no optimizer that would have a rate", info.name),
                    "leave it out, or `minimize` something in the model");
}

void check_trainable(const ProgramInfo& info, const RunFile& run) {
  check_rate(info, run);
  watched_norms(info, run);
  check_judged(info, run);
  require_not_read(run, run.log.trace_file);
  require_not_read(run, run.log.jsonl);
  require_steps(run);
}

int train(Rank& rank, Program& program, const RunFile& run, const DriverOptions& options) {
  const ProgramInfo& info = program.info();
  check_trainable(info, run);
  heed_timeout(rank, run);
  check_same_job(rank, info, run);
  if (const std::string slow = multiply_warning({info.bf16, info.f16}); !slow.empty() && rank.rank() == 0)
    tell("warning: {}\n", slow);
  prepare(rank, program);
  Batches batches(program.tensors(), info, run, run.data, "data");
  std::optional<Validator> validator;
  if (run.validation.given()) validator.emplace(program, run, validation_set(run));
  initialise(program.tensors(), run.train.seed.value);
  Checkpoints checkpoints(rank, program, run);
  const std::optional<Moment> resumed = checkpoints.resume();
  Judge judge(info, run);
  if (resumed) {
    judge.resume(checkpoints.course());
    if (run.checkpoint.best.given()) checkpoints.mark_best(judge.best_step());
  }
  Moment moment =
      resumed.value_or(Moment{.step = 0, .position = 0, .seed = run.train.seed.value, .steps = run.train.steps.value});
  LoadedParameters loaded;
  if (!resumed && !run.train.params.empty()) loaded = load_parameters(rank, program, run.train);
  if (!resumed) batches.fill_state();
  batches.seed(moment.seed, run.train.shuffle.value);
  ReadAhead reader(batches);
  const Outputs outputs(rank, program, run);
  RunReport report(rank, info, run, options, moment.step);
  const std::unique_ptr<ProgressThread> progress = progress_thread(rank);

  std::optional<Log> log;
  if (rank.rank() == 0) {
    log.emplace(info, log_options(info, run, batches, options, report, moment.step, checkpoints.course()));
    for (const std::string& note : {report.set_aside(), report.unlocked(), checkpoints.unlocked()})
      if (!note.empty()) log->note(note);
    checkpoints.tell = [&](const std::string& text) { log->note(text); };
    if (batches.mixture() != nullptr) log->note("data: " + batches.mixture_text());
    for (const std::string& told : batches.reshaped()) log->note("data: " + told);
    tell_left_out(*log, "data", batches);
    if (validator) tell_left_out(*log, "validation", validator->batches());
    for (const std::string& note : never_written(run)) log->note(note);
    if (!loaded.note.empty()) log->note(loaded.note);
    if (resumed) tell_resumed(*log, run, checkpoints.resumed_from(), moment.step, judge.verdict());
    if (!checkpoints.changed().empty()) log->note(checkpoints.changed());
  }
  const std::vector<size_t> watched = watched_norms(info, run);
  std::vector<double> numbers(info.metrics.size() + info.watched.size()), norms(watched.size()),
      validated(info.metrics.size());
  const std::span<const double> metrics = std::span(numbers).first(info.metrics.size());
  const int64_t steps = run.train.steps.value, began = moment.step;
  const size_t step_entry = entry_of(info, "train");
  const EntryInfo* const outer = follower(info);
  FiniteWatch watch(info, run.log.nonfinite);
  FiniteChecks checks{.stop = run.log.nonfinite == Nonfinite::stop, .step = 0, .found = {}};
  const Checking checking(run.log.nonfinite == Nonfinite::ignore ? nullptr : &checks);
  const auto look_at_parameters = [&](int64_t step) {
    const std::string news = watch.parameters(program.tensors(), step);
    if (log && !news.empty()) log->note(news);
  };
  checkpoints.before_writing = look_at_parameters;
  checkpoints.course_now = [&] {
    Course course = judge.course();
    if (log) log->note_unlogged(course);
    return course;
  };
  bool read = false;    // whether the inputs hold what `data` says
  std::string stopped;  // by what
  bool told = false;    // of a value that is not finite
  const auto evaluate = [&](const StepInput& input) {
    const Clock::time_point start = Clock::now();
    validator->run(input, validated);
    // What the ranks do next depends on these: each goes by the numbers of one.
    broadcast(rank, world(rank), {-1, "metrics of an evaluation"}, validated.data(),
              static_cast<int64_t>(validated.size()), Type::f64, 0);
    read = false;
    judge.hear(input.step, validated);
    if (log) log->validation(input.step, validated, validator->count(), seconds_since(start));
  };
  const auto go = [&] {
    const bool over = moment.step == steps || !judge.verdict().empty();
    if (resumed && validator && (over || (is_due(run.validation, moment.step) && judge.heard() < moment.step))) {
      // A run that has nothing left to do tells how it has ended; one that was stopped here has not evaluated yet.
      const bool new_one = judge.heard() < moment.step;
      evaluate({.step = moment.step, .steps = steps, .rate = run.train.rate.value, .seed = moment.seed});
      checkpoints.write_due(moment, new_one && judge.is_best());
    }
    while (moment.step < steps && stopped.empty() && judge.verdict().empty()) {
      const Clock::time_point asked = Clock::now();
      const bool more = batches.samples() > 0;
      if (!read || more)
        reader.fill(moment.position, more && moment.step + 1 < steps ? moment.position + batches.batch_size() : -1);
      const double waited = seconds_since(asked);
      read = true;
      ++moment.step;
      moment.position += batches.batch_size();
      checks.step = moment.step;
      const StepInput input{.step = moment.step, .steps = steps, .rate = run.train.rate.value, .seed = moment.seed};
      if (!resumed && moment.step == 1)
        begin_states(program, batches, input, [&](const std::string& path) {
          return std::ranges::find(loaded.states, path) == loaded.states.end();
        });
      StepProfile profile = report.step(moment.step, [&] { program.run(step_entry, input, numbers); });
      for (size_t i = 0; i < watched.size(); ++i) norms[i] = numbers[metrics.size() + watched[i]];
      profile.data = waited;
      if (!checks.found.empty() && !told) tell("warning: {}\n", checks.found);
      told = !checks.found.empty();
      const std::string news = watch.step(metrics, moment.step, [&] {
        checkpoints.finish();  // one under way is of a step that was well
        return bad_data(rank, batches, moment.position - batches.batch_size());
      });
      if (log && run.log.profile.value) log->profile(profile);
      if (log) log->step(moment.step, metrics, norms);
      if (log && !news.empty()) log->note(news);
      const std::string traced = report.after(moment.step);
      if (log && !traced.empty()) log->note(traced);

      if (moment.step < steps) stopped = checkpoints.after_step();
      // A run that is to go on from its checkpoint writes at this step what it would if nothing had stopped it; when it
      // goes on, it begins with the evaluation that is due.
      const bool pauses = !stopped.empty() && run.checkpoint.folder.given();
      const bool last = moment.step == steps || (!stopped.empty() && !pauses);
      const bool evaluates = validator && !pauses && (last || is_due(run.validation, moment.step));
      // Before another entry is called, which may take their memory.
      const auto write_outputs = [&] { outputs.write(moment.step, last || (evaluates && judge.may_end())); };
      const bool meets = outer != nullptr && moment.step % outer->after_steps == 0;
      if (meets) {
        write_outputs();
        program.run(entry_of(info, outer->name), input, {});
      }
      if (last && !run.checkpoint.folder.given()) look_at_parameters(moment.step);
      if (last || pauses) checkpoints.last(moment);  // first: what comes now may fail
      if (!meets) write_outputs();
      if (evaluates) evaluate(input);
      if (!last && !judge.verdict().empty() && !run.checkpoint.folder.given()) look_at_parameters(moment.step);
      if (!pauses) checkpoints.write_due(moment, evaluates && judge.is_best());
    }
    checkpoints.last(moment);  // of a run that ends early, or began at its last step
  };
  report.watch(go);
  const std::string skipped = skipped_steps(rank, program, moment.step);
  if (log && !stopped.empty())
    log->note(fmt::format("{} has ended the run after step {} of {}", stopped, moment.step, steps));
  if (log && moment.step < steps && moment.step > began && !judge.verdict().empty())
    log->note(fmt::format("train.stop has ended the run after step {} of {}: {}", moment.step, steps, judge.verdict()));
  if (log && outer != nullptr && moment.step % outer->after_steps != 0)
    log->note(fmt::format("the parameters are those of step {}: the replicas have not met since",
                          moment.step / outer->after_steps * outer->after_steps));
  if (log && !skipped.empty()) log->note(skipped);
  if (log) log->summary();
  const auto is_parameter = [](const Tensor& tensor) { return tensor.role == Role::parameter; };
  if (log && std::ranges::any_of(program.tensors(), is_parameter))
    log->note(checkpoints.newest().empty() ? "the parameters are not kept: `checkpoint: { dir: FOLDER }` keeps them"
                                           : fmt::format("the parameters are in {}", checkpoints.newest()));
  if (log && !checkpoints.best().empty())
    log->note(fmt::format("those of the best evaluation are in {}", checkpoints.best()));
  for (const std::string& news : report.finish(checkpoints.copied()))
    if (log) log->note(news);
  return stopped.empty() || !run.checkpoint.folder.given() ? 0 : exit_stopped;
}

int dry_run(Rank& rank, Program& program, const RunFile& run, const DriverOptions& options) {
  const ProgramInfo& info = program.info();
  watched_norms(info, run);
  heed_timeout(rank, run);
  check_same_job(rank, info, run);
  prepare(rank, program);
  if (!run.data.empty()) Batches(program.tensors(), info, run, run.data, "data").fill(0);
  if (run.validation.given()) Batches(program.tensors(), info, run, run.validation.data, "validation").fill(0);
  float ranks = 1;
  all_reduce(rank, world(rank), {-1, "dry run"}, &ranks, 1, Type::f32, Reduce::sum);
  if (ranks != static_cast<float>(rank.ranks()))
    throw Failure(Cause::mismatch, fmt::format("an all-reduce of 1 over {} ranks gave {}", rank.ranks(), ranks));
  if (rank.rank() == 0)
    tell_on(options.out, "dry run of `{}`: {} rank{}, {} each: ok\n", info.name, rank.ranks(),
            rank.ranks() == 1 ? "" : "s", bytes_text(most_memory(info)));
  return 0;
}

}  // namespace meshrt
