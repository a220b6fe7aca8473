// checkpoints.h: `checkpoint` of the run file: where a run goes on from, what it writes on its way, and what ends it
// before its last step.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/writer.h"
#include "driver/stop_request.h"
#include "meshrt/program_info.h"
#include "meshrt/rank.h"
#include "meshrt/run_file.h"
#include "system/folder_lock.h"

namespace meshrt {

class Program;  // meshrt/program.h

class Checkpoints {
 public:
  /// Nobody else writes into the folder while this lives. Throws Failure: environment (the folder cannot be written, is
  /// another one for some ranks, or another run writes into it), data (the run would begin anew among the checkpoints
  /// of another). Collective.
  Checkpoints(Rank& rank, Program& program, const RunFile& run);

  /// Loads the checkpoint that the run goes on from, if there is one, and gives its moment. Collective. Throws Failure
  /// (Cause::data) when it does not fit the program or is damaged.
  std::optional<Moment> resume();
  /// The checkpoint that resume() has loaded.
  const std::string& resumed_from() const { return resumed_from_; }
  /// What is otherwise than in the run that it goes on with, a line each; empty: nothing.
  const std::string& changed() const { return changed_; }

  /// On rank 0: why no other run is kept out of the folder, in words; empty: it is locked.
  const std::string& unlocked() const { return lock_.problem(); }

  /// What the run that is resumed has seen of itself.
  const Course& course() const { return course_; }

  /// After every step: whether the run has to end now, and why ("SIGTERM", "train.max_time"); empty: it goes on. Goes
  /// on with the checkpoint under way. Collective.
  std::string after_step();
  /// Writes what is due after a step, where that is `best`: of the best evaluation so far, which the checkpoint of the
  /// step is marked as. Where that one is there already, it is told what has been seen since. Collective.
  void write_due(const Moment& moment, bool best);
  /// Writes the last checkpoint and waits for it. Throws Failure (Cause::environment) when it cannot be written.
  void last(const Moment& moment, bool best = false);
  /// On rank 0: the checkpoint of `step` is that of the best evaluation; none is, where it is not there.
  void mark_best(int64_t step) const;
  /// Bytes that this rank has for copies of its tensors, which are written while it goes on.
  int64_t copied() const { return writer_ ? writer_->copied() : 0; }
  /// Waits for the checkpoint under way.
  void finish();

  /// The checkpoint that was written or loaded last; empty: there is none.
  std::string newest() const { return newest_ < 0 ? "" : folder_.finished(newest_); }
  /// That of the best evaluation of this run; empty: there is none, or it is not asked for.
  std::string best() const;

  /// Called on every rank before a checkpoint of this step is begun; may throw.
  std::function<void(int64_t step)> before_writing;
  /// What the run has seen of itself, for a checkpoint; called on every rank, and rank 0 writes what it says.
  std::function<Course()> course_now = [] { return Course(); };
  /// Where lines for the log go; called on rank 0.
  std::function<void(const std::string&)> tell;

 private:
  struct Votes {
    int32_t signal = 0, over = 0, working = 0;
  };
  Votes vote() const;
  bool votes() const { return writer_ || run_.train.max_time.given(); }
  void begin(const Moment& moment, bool best);
  void amend(const Moment& moment, bool best);
  void end(const CheckpointWriter::Outcome& outcome);
  std::string what_stays() const;
  void claim();
  bool goes_back_within() const;
  std::optional<std::string> source() const;
  void note_later(int64_t step);
  void note_change(const std::string& text) { changed_ += (changed_.empty() ? "" : "\n") + text; }
  template <class Action>
  auto or_else_tell(const std::string& path, Action action) const;

  Rank& rank_;
  Program& program_;
  const RunFile& run_;
  CheckpointFolder folder_;
  FolderLock lock_;
  std::map<std::string, DataFile> data_files_;  // on rank 0
  int64_t begin_ = -1;  // on rank 0: step of the checkpoint in the folder that the run goes on from; -1: none of those
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<StopRequest> stop_;
  std::optional<CheckpointWriter> writer_;
  std::string resumed_from_, changed_, last_error_;
  int64_t newest_ = -1;  // step of the newest checkpoint, begun or loaded
  Course course_;        // that stands in it
  bool ending_ = false;  // the last checkpoint is under way
};

}  // namespace meshrt
