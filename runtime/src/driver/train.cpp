// The loop around a program.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "driver/batches.h"
#include "driver/load_parameters.h"
#include "driver/nodes.h"
#include "driver/outputs.h"
#include "meshrt/collectives.h"
#include "meshrt/driver.h"
#include "meshrt/failure.h"
#include "meshrt/profile.h"

namespace meshrt {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The inputs of a validation and how much of them is read.
class Validator {
 public:
  Validator(Program& program, const RunFile& run)
      : program_(program), batches_(program.tensors(), program.info(), run, run.validation.data, "validation") {
    const Validation& validation = run.validation;
    const int64_t whole = batches_.samples() == 0 ? 1 : batches_.whole_batches();
    if (whole == 0)
      throw run.error(validation.mark, fmt::format("validation has {} samples, less than one batch of {}",
                                                   batches_.samples(), batches_.batch_size()));
    if (validation.steps.value > whole)
      throw run.error(validation.steps.mark,
                      fmt::format("validation has only {} whole batches of {}", whole, batches_.batch_size()),
                      "leave `steps` out to read them all");
    count_ = validation.steps.given() ? validation.steps.value : whole;
  }

  int64_t count() const { return count_; }
  const Batches& batches() const { return batches_; }

  void run(std::span<double> metrics) const {
    program_.evaluate_reset();
    for (int64_t b = 0; b < count_; ++b) {
      batches_.fill(b);
      program_.evaluate_step();
    }
    program_.evaluate_finish(metrics);
  }

 private:
  Program& program_;
  Batches batches_;
  int64_t count_ = 0;
};

/// Whether the run's time is over: rank 0's clock decides for all.
class TimeLimit {
 public:
  TimeLimit(Rank& rank, double seconds) : rank_(rank), seconds_(seconds), start_(Clock::now()) {}

  bool reached() const {
    if (seconds_ <= 0) return false;
    uint8_t over = seconds_since(start_) >= seconds_ ? 1 : 0;
    const Axis all[] = {{rank_.ranks(), 1}};
    broadcast(rank_, rank_.group(all), {-1, "train.max_time"}, &over, 1, Type::u8, 0);
    return over != 0;
  }

 private:
  Rank& rank_;
  double seconds_;
  Clock::time_point start_;
};

void check_finite(const ProgramInfo& info, std::span<const double> metrics, double before, int64_t step) {
  if (metrics.empty() || std::isfinite(metrics[0])) return;
  const std::string history =
      step == 1 ? "it is so from the beginning" : fmt::format("after step {} it was {:.6g}", step - 1, before);
  const char* help = info.sample_dim.empty() ? "" : "a smaller `train.lr` or clipping may help; ";
  throw Failure(Cause::numeric, fmt::format("`{}` is {} at step {}; {}\n{}`log.nonfinite=ignore` goes on regardless",
                                            info.metrics[0], metrics[0], step, history, help));
}

LogOptions log_options(const RunFile& run, const Batches& batches, const DriverOptions& options) {
  LogOptions log;
  log.out = options.out;
  log.color = options.color;
  log.every = run.log.every.value;
  log.jsonl = run.log.jsonl.value;
  log.steps = run.train.steps.value;
  log.units_per_step = static_cast<double>(batches.units_per_batch());
  log.unit = batches.unit();
  return log;
}

void tell_left_out(Log& log, const char* section, const Batches& batches) {
  if (batches.left_out() == 0) return;
  log.note(fmt::format("{}: {} of {} samples are left out, with a line longer than its input", section,
                       grouped(batches.left_out()), grouped(batches.left_out() + batches.samples())));
}

}  // namespace

int mesh_size(const ProgramInfo& info) {
  int size = 1;
  for (const MeshAxis& axis : info.mesh) size *= axis.size;
  return size;
}

void prepare(Rank& rank, Program& program) {
  const ProgramInfo& info = program.info();
  if (rank.ranks() != mesh_size(info))
    throw Failure(Cause::usage, fmt::format("the job has {} ranks, but `{}` is compiled for the {} of its mesh",
                                            rank.ranks(), info.name, mesh_size(info)));
  rank.allocate(info.arena_bytes, info.own_bytes);
  program.bind(rank);
  check_nodes(rank, info);
}

void check_trainable(const RunFile& run) {
  const auto refuse = [&](Mark mark, const char* what) {
    throw run.error(mark, fmt::format("{} is not built yet", what), "take it out to run without");
  };
  const Checkpoint& checkpoint = run.checkpoint;
  const bool resumes =
      checkpoint.resume.given() && checkpoint.resume.value != "never" && checkpoint.resume.value != "auto";
  if (checkpoint.folder.given() || checkpoint.every.given() || resumes) refuse(checkpoint.mark, "`checkpoint`");
  if (!run.log.watch.empty()) refuse(run.log.watch[0].mark, "`log.watch`");
  if (!run.train.steps.given())
    throw Failure(
        Cause::data,
        "the run file does not say how many steps: add `train: { steps: 1000 }`, or `train.steps=1000` on the "
        "command line");
}

int train(Rank& rank, Program& program, const RunFile& run, const DriverOptions& options) {
  check_trainable(run);
  prepare(rank, program);
  const ProgramInfo& info = program.info();
  const Batches batches(program.tensors(), info, run, run.data, "data");
  std::optional<Validator> validator;
  if (run.validation.given()) validator.emplace(program, run);
  initialise(program.tensors(), run.train.seed.value);
  if (run.train.params.given()) load_parameters(rank, program.tensors(), run.train.params.value);
  batches.fill_state();
  const Outputs outputs(rank, program, run);

  std::optional<Log> log;
  if (rank.rank() == 0) log.emplace(info, log_options(run, batches, options));
  if (log) tell_left_out(*log, "data", batches);
  if (log && validator) tell_left_out(*log, "validation", validator->batches());
  std::vector<double> metrics(info.metrics.size()), validated(info.metrics.size());
  StepInput input{
      .step = 0, .steps = run.train.steps.value, .rate = run.train.rate.value, .seed = run.train.seed.value};
  const TimeLimit limit(rank, run.train.max_time.value);
  double loss_before = std::numeric_limits<double>::quiet_NaN();
  bool read = false;  // whether the inputs hold what `data` says
  while (input.step < input.steps) {
    if (!read || batches.samples() > 0) batches.fill(input.step);
    read = true;
    ++input.step;
    StepProfile profile;
    {
      const Profiling profiling(run.log.profile.value && log ? &profile : nullptr);
      const Timed timed(&StepProfile::step);
      program.train_step(input, metrics);
    }
    if (run.log.stop_at_nonfinite.value) check_finite(info, metrics, loss_before, input.step);
    if (!metrics.empty()) loss_before = metrics[0];
    if (log && run.log.profile.value) log->profile(profile);
    if (log) log->step(input.step, metrics);

    const bool over = input.step < input.steps && limit.reached(), last = over || input.step == input.steps;
    if (validator && (last || (run.validation.every.given() && input.step % run.validation.every.value == 0))) {
      const Clock::time_point start = Clock::now();
      validator->run(validated);
      read = false;
      if (log) log->validation(input.step, validated, validator->count(), seconds_since(start));
    }
    outputs.write(input.step, last);
    if (over) {
      if (log) log->note(fmt::format("train.max_time is over after step {}", input.step));
      break;
    }
  }
  if (log) log->summary();
  return 0;
}

int dry_run(Rank& rank, Program& program, const RunFile& run, const DriverOptions& options) {
  prepare(rank, program);
  const ProgramInfo& info = program.info();
  if (!run.data.empty()) Batches(program.tensors(), info, run, run.data, "data").fill(0);
  if (run.validation.given()) Batches(program.tensors(), info, run, run.validation.data, "validation").fill(0);
  const Axis all[] = {{rank.ranks(), 1}};
  float ranks = 1;
  all_reduce(rank, rank.group(all), {-1, "dry run"}, &ranks, 1, Type::f32, Reduce::sum);
  if (ranks != static_cast<float>(rank.ranks()))
    throw Failure(Cause::mismatch, fmt::format("an all-reduce of 1 over {} ranks gave {}", rank.ranks(), ranks));
  if (rank.rank() == 0)
    fmt::print(options.out, "dry run of `{}`: {} rank{}, {:.1f} MiB each: ok\n", info.name, rank.ranks(),
               rank.ranks() == 1 ? "" : "s", static_cast<double>(info.arena_bytes + info.own_bytes) / (1 << 20));
  return 0;
}

}  // namespace meshrt
