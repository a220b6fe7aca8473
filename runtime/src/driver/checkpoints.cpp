#include "driver/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "checkpoint/load.h"
#include "meshrt/collectives.h"
#include "meshrt/failure.h"
#include "meshrt/log.h"

namespace meshrt {

namespace {

constexpr Site site{-1, "checkpoint"};

/// Whether a scheduler or launcher has started this job before: Slurm after requeueing it, torchrun after a failure.
bool is_restart() {
  for (const char* count : {"SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT", "MESHRT_RESTART"})
    if (const char* text = std::getenv(count)) return std::atoi(text) > 0;
  return false;
}

const Group& world(Rank& rank) {
  const Axis all[] = {{rank.ranks(), 1}};
  return rank.group(all);
}

}  // namespace

Checkpoints::Checkpoints(Rank& rank, Program& program, const RunFile& run)
    : rank_(rank), program_(program), run_(run), folder_(run.checkpoint.folder.value) {
  const Checkpoint& wanted = run.checkpoint;
  if (!wanted.folder.given()) return;
  if (rank.rank() == 0) folder_.prepare();
  barrier(rank, world(rank), site);  // nobody writes before the rests of an interrupted run are gone
  stop_.emplace();
  writer_.emplace(
      rank, program.info(), program.tensors(),
      CheckpointWriter::Options{folder_.path(), wanted.file_bytes.value, wanted.keep.value, wanted.asynchronous.value});
}

// Rank 0 looks, so that all go on from the same one.
std::optional<std::string> Checkpoints::source() const {
  const std::string& resume = run_.checkpoint.resume.value;
  int64_t step = -1;
  if (writer_) {
    if (rank_.rank() == 0 && (resume == "auto" || is_restart())) step = folder_.latest().value_or(-1);
    broadcast(rank_, world(rank_), site, &step, 1, Type::i64, 0);
  }
  if (step >= 0) return folder_.finished(step);
  return resume == "auto" || resume == "never" ? std::nullopt : std::optional(resume);
}

/// `action` with a checkpoint; where it is damaged, or of another model, also what to do about that.
template <class Action>
auto Checkpoints::or_else_tell(const std::string& path, Action action) const {
  try {
    return action();
  } catch (const Failure& failure) {
    if (failure.cause != Cause::data) throw;
    std::string another;
    if (writer_)
      for (const int64_t step : folder_.steps())
        if (const std::string other = folder_.finished(step); other != path)
          another = fmt::format(", `checkpoint.resume={}` goes on from another one", other);
    throw Failure(
        Cause::data,
        fmt::format("{}\n`checkpoint.resume=never` begins anew (in another `checkpoint.dir`, this one stays){}",
                    failure.what(), another));
  }
}

std::optional<Moment> Checkpoints::resume() {
  const std::optional<std::string> path = source();
  if (!path) return std::nullopt;
  const SavedTensors saved = or_else_tell(*path, [&] { return SavedTensors::open(*path); });
  if (!saved.manifest())
    throw run_.error(run_.checkpoint.resume.mark,
                     fmt::format("`{}` holds tensors, but is not a checkpoint of a run", *path),
                     "`train.params` begins a run with them");
  Moment moment = saved.manifest()->moment;
  if (run_.train.seed.given() && run_.train.seed.value != moment.seed) {
    note_change(fmt::format("train.seed is {} and was {}: random numbers are others from here on",
                            run_.train.seed.value, moment.seed));
    moment.seed = run_.train.seed.value;
  }
  const int64_t steps = run_.train.steps.value;
  if (moment.steps > 0 && moment.steps != steps)
    note_change(fmt::format("train.steps is {} and was {}: a rate without `steps:` of its own ends there now", steps,
                            moment.steps));
  moment.steps = steps;
  if (moment.step > run_.train.steps.value)
    throw run_.error(run_.train.steps.mark, fmt::format("`{}` is of step {}, but the run ends at step {}", saved.path(),
                                                        moment.step, run_.train.steps.value));
  or_else_tell(*path, [&] { return load_tensors(rank_, program_.info(), program_.tensors(), saved, {}); });
  if (const auto lost = writer_ ? folder_.lost() : std::nullopt)
    note_change(fmt::format("`latest` of {} names step {}, which is gone", folder_.path(), *lost));
  resumed_from_ = saved.path();
  if (writer_ && saved.path() == folder_.finished(moment.step)) newest_ = moment.step;
  return moment;
}

// What every rank has to say after a step, added up.
Checkpoints::Votes Checkpoints::vote() const {
  Votes votes;
  if (stop_) votes.signal = StopRequest::signal();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
  if (rank_.rank() == 0 && run_.train.max_time.given()) votes.over = spent.count() >= run_.train.max_time.value ? 1 : 0;
  if (writer_) votes.working = writer_->working() ? 1 : 0;
  std::array numbers = {votes.signal, votes.over, votes.working};
  all_reduce(rank_, world(rank_), site, numbers.data(), numbers.size(), Type::i32, Reduce::max);
  return {numbers[0], numbers[1], numbers[2]};
}

std::string Checkpoints::after_step(const Moment& moment) {
  if (!votes()) return "";
  const Votes said = vote();
  if (writer_ && writer_->busy() && said.working == 0)
    if (const auto outcome = writer_->advance()) end(*outcome);
  const Given<int64_t>& every = run_.checkpoint.every;
  if (writer_ && every.given() && moment.step % every.value == 0) begin(moment);
  if (said.signal != 0) return fmt::format("SIG{}", sigabbrev_np(said.signal));
  return said.over != 0 ? "train.max_time" : "";
}

void Checkpoints::begin(const Moment& moment) {
  finish();
  newest_ = moment.step;
  writer_->begin(moment);
  if (!run_.checkpoint.asynchronous.value) finish();
}

void Checkpoints::finish() {
  if (!writer_) return;
  while (writer_->busy()) {
    writer_->wait();
    if (const auto outcome = writer_->advance()) end(*outcome);
  }
}

void Checkpoints::end(const CheckpointWriter::Outcome& outcome) {
  last_error_ = outcome.error;
  if (!outcome.error.empty()) newest_ = -1;
  if (rank_.rank() != 0 || !tell) return;
  if (outcome.error.empty())
    tell(fmt::format("checkpoint of step {}: {}, {}, {:.1f} s", outcome.step, folder_.finished(outcome.step),
                     bytes_text(outcome.bytes), outcome.seconds));
  else
    tell(fmt::format("the checkpoint of step {} is lost: {}; older ones stay, the run goes on", outcome.step,
                     outcome.error));
}

void Checkpoints::last(const Moment& moment) {
  if (!writer_) return;
  finish();
  if (newest_ == moment.step) return;
  begin(moment);
  finish();
  if (!last_error_.empty())
    throw Failure(Cause::environment, fmt::format("the last checkpoint is lost: {}", last_error_));
}

}  // namespace meshrt
