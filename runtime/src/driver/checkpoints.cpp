#include "driver/checkpoints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "checkpoint/file_plan.h"
#include "checkpoint/load.h"
#include "checkpoint/shared_folder.h"
#include "data/data_files.h"
#include "driver/changes.h"
#include "driver/job.h"
#include "meshrt/collectives.h"
#include "meshrt/failure.h"
#include "meshrt/log.h"
#include "meshrt/program.h"
#include "report/gather.h"
#include "system/token.h"

namespace meshrt {

namespace {

/// Whether this job has written the checkpoint `path`, before a scheduler or launcher has started it again.
bool is_own(const std::string& path) {
  try {
    return is_restart_of(read_manifest((std::filesystem::path(path) / manifest_name).string()).job);
  } catch (const Failure&) {
    return false;  // it is damaged: whoever reads it will tell
  }
}

/// "step-5, step-10 and 7 more"
std::string steps_text(const std::vector<int64_t>& steps) {
  constexpr size_t shown = 3;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(shown, steps.size()); ++i) names.push_back(fmt::format("step-{}", steps[i]));
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (steps.size() > shown) text += fmt::format(" and {} more", steps.size() - shown);
  return text;
}

/// A word that no other run has.
std::string draw_run() {
  const std::string bytes = draw_nonce();
  return fmt::format("{:02x}", fmt::join(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), 8), ""));
}

}  // namespace

Checkpoints::Checkpoints(Rank& rank, Program& program, const RunFile& run)
    : rank_(rank), program_(program), run_(run), folder_(run.checkpoint.folder.value) {
  const Checkpoint& wanted = run.checkpoint;
  if (rank.rank() == 0 && (wanted.folder.given() || wanted.resume.given())) data_files_ = data_files(run);
  if (!wanted.folder.given()) return;
  const std::string name = text_of_rank_0(rank, checkpoint_site.value, rank.rank() == 0 ? draw_run() : "");
  folder_ = CheckpointFolder(folder_.path(), name);
  if (rank.rank() == 0) claim();
  require_shared_folder(rank, folder_);  // nobody writes before the rests of an interrupted run are gone
  stop_.emplace();
  writer_.emplace(rank, program.info(), program.tensors(),
                  CheckpointWriter::Options{folder_.path(), name, wanted.file_bytes.value, wanted.keep.value,
                                            wanted.asynchronous.value, rate_of(program.info(), run), job_names(),
                                            data_text(run), data_files_});
}

// Takes the folder for this run, and finds what is to be gone on from in it.
void Checkpoints::claim() {
  folder_.make();
  lock_ = FolderLock(folder_.path(), folder_.path(), "name another folder with `checkpoint.dir`");
  folder_.recover();
  const Given<std::string>& resume = run_.checkpoint.resume;
  if (resume.value == "auto") folder_.require_whole_latest();
  const std::optional<int64_t> newest = folder_.latest();
  if (newest && (resume.value == "auto" || is_own(folder_.finished(*newest)))) {
    begin_ = *newest;
  } else if (newest && !goes_back_within()) {
    throw run_.error(
        run_.checkpoint.folder.mark,
        fmt::format("`{}` holds checkpoints of another run ({}): this one would begin anew among them", folder_.path(),
                    steps_text(folder_.steps())),
        fmt::format("another folder, or `checkpoint.resume=auto` to go on from step {}, or remove them", *newest));
  }
  folder_.prepare();
}

// Whether `resume` names a checkpoint in the folder itself.
bool Checkpoints::goes_back_within() const {
  namespace fs = std::filesystem;
  const std::string& resume = run_.checkpoint.resume.value;
  if (resume == "auto" || resume == "never") return false;
  std::error_code ignored;
  const fs::path from = fs::canonical(resume, ignored), folder = fs::canonical(folder_.path(), ignored);
  return from == folder || from.parent_path() == folder;
}

// Rank 0 has looked, so that all go on from the same one.
std::optional<std::string> Checkpoints::source() const {
  const std::string& resume = run_.checkpoint.resume.value;
  int64_t step = begin_;
  if (writer_) broadcast(rank_, world(rank_), checkpoint_site, &step, 1, Type::i64, 0);
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
    throw Failure(Cause::data, fmt::format("{}\n`checkpoint.resume=never` with another `checkpoint.dir` begins anew{}",
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
  if (moment.step > run_.train.steps.value)
    throw run_.error(run_.train.steps.mark,
                     fmt::format("`{}` is of step {}, but the run ends at step {}", saved.path(), moment.step,
                                 run_.train.steps.value),
                     "more steps, or `checkpoint.resume=never` with another `checkpoint.dir`");
  for (const std::string& change : changes_since(*saved.manifest(), program_.info(), run_, data_files_))
    note_change(change);
  if (run_.train.seed.given()) moment.seed = run_.train.seed.value;
  moment.steps = run_.train.steps.value;
  const Unmatched unmatched =
      or_else_tell(*path, [&] { return load_tensors(rank_, program_.info(), program_.tensors(), saved, {}); });
  if (!unmatched.begun.empty())
    note_change(fmt::format("`{}` lacks {}: as at the start of a run", saved.path(), fmt::join(unmatched.begun, ", ")));
  if (!unmatched.ceased.empty())
    note_change(fmt::format("`{}` also has {}: not read", saved.path(), fmt::join(unmatched.ceased, ", ")));
  resumed_from_ = saved.path();
  course_ = saved.manifest()->course;
  if (!writer_) return moment;
  if (const auto lost = folder_.lost())
    note_change(fmt::format("`latest` of {} names step {}, which is gone", folder_.path(), *lost));
  std::error_code ignored;
  if (std::filesystem::equivalent(saved.path(), folder_.finished(moment.step), ignored)) {
    newest_ = moment.step;
    note_later(moment.step);
  }
  return moment;
}

void Checkpoints::note_later(int64_t step) {
  std::vector<int64_t> later = folder_.steps();
  std::erase_if(later, [&](int64_t s) { return s <= step; });
  if (!later.empty())
    note_change(fmt::format("`{}` also holds {} of before: they stay until this run writes its own of these steps",
                            folder_.path(), steps_text(later)));
}

// What every rank has to say after a step, added up.
Checkpoints::Votes Checkpoints::vote() const {
  Votes votes;
  if (stop_) votes.signal = StopRequest::signal();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
  if (rank_.rank() == 0 && run_.train.max_time.given()) votes.over = spent.count() >= run_.train.max_time.value ? 1 : 0;
  if (writer_) votes.working = writer_->working() ? 1 : 0;
  std::array numbers = {votes.signal, votes.over, votes.working};
  all_reduce(rank_, world(rank_), checkpoint_site, numbers.data(), numbers.size(), Type::i32, Reduce::max);
  return {numbers[0], numbers[1], numbers[2]};
}

std::string Checkpoints::after_step() {
  if (!votes()) return "";
  const Votes said = vote();
  if (writer_ && writer_->busy() && said.working == 0)
    if (const auto outcome = writer_->advance()) end(*outcome);
  if (said.signal != 0) return fmt::format("SIG{}", sigabbrev_np(said.signal));
  return said.over != 0 ? "train.max_time" : "";
}

void Checkpoints::write_due(const Moment& moment, bool best) {
  if (!writer_) return;
  const Given<int64_t>& every = run_.checkpoint.every;
  if (newest_ == moment.step) amend(moment, best);
  else if (best || (every.given() && moment.step % every.value == 0)) begin(moment, best);
}

// An evaluation comes after the last checkpoint: whatever fails in it, that is safe.
void Checkpoints::amend(const Moment& moment, bool best) {
  finish();
  if (newest_ != moment.step) return;  // it is lost
  const Course before = std::exchange(course_, course_now());
  if (rank_.rank() != 0) return;
  try {
    if (course_ != before) folder_.amend(moment.step, course_);
    if (best) folder_.mark_best(moment.step);
  } catch (const Failure& failure) {
    if (tell)
      tell(fmt::format("what the evaluation after step {} has shown is not kept: {}", moment.step, failure.what()));
  }
}

void Checkpoints::mark_best(int64_t step) const {
  if (writer_ && rank_.rank() == 0) folder_.mark_best(step);
}

std::string Checkpoints::best() const {
  const std::optional<int64_t> step = run_.checkpoint.best.given() ? folder_.best() : std::nullopt;
  return step ? folder_.finished(*step) : "";
}

void Checkpoints::begin(const Moment& moment, bool best) {
  finish();
  if (before_writing) before_writing(moment.step);
  newest_ = moment.step;
  course_ = course_now();
  writer_->begin(moment, course_, best);
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
  if (!outcome.error.empty() && ending_) return;  // last() throws it
  if (outcome.error.empty())
    tell(fmt::format("checkpoint of step {}: {}, {}, {:.1f} s", outcome.step, folder_.finished(outcome.step),
                     bytes_text(outcome.bytes), outcome.seconds));
  else
    tell(fmt::format("the checkpoint of step {} is lost: {}; {}, the run goes on", outcome.step, outcome.error,
                     what_stays()));
}

// From what the same command would go on.
std::string Checkpoints::what_stays() const {
  const std::optional<int64_t> newest = folder_.latest();
  return newest ? fmt::format("{} stays", folder_.finished(*newest)) : "there is none before it";
}

void Checkpoints::last(const Moment& moment, bool best) {
  if (!writer_) return;
  finish();
  if (newest_ == moment.step) return;
  ending_ = true;
  begin(moment, best);
  finish();
  if (!last_error_.empty())
    throw Failure(Cause::environment, fmt::format("the last checkpoint is lost: {}; {}", last_error_, what_stays()));
}

}  // namespace meshrt
