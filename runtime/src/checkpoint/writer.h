// writer.h: the ranks of a job write a checkpoint together while they train on: each copies the numbers it vouches for.
// Rank 0 makes the files, then a thread of each rank writes its numbers at their places. When all have, rank 0
// publishes.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/file_plan.h"
#include "checkpoint/tensor_part.h"
#include "meshrt/checkpoint.h"
#include "meshrt/collectives.h"
#include "meshrt/program_info.h"
#include "meshrt/rank.h"
#include "meshrt/tensor.h"
#include "transport/memory.h"

namespace meshrt {

/// What messages call the collectives of a checkpoint.
inline constexpr Site checkpoint_site{-1, "checkpoint"};

/// Work on a thread of its own.
class Background {
 public:
  Background() = default;
  ~Background() { join(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void start(std::function<void()> work);
  bool running() const { return running_.load(std::memory_order_acquire); }
  void join();
  /// What the work has failed with, after it has ended; empty: nothing.
  const std::string& error() const { return error_; }

 private:
  std::thread thread_;
  std::atomic<bool> running_ = false;
  std::string error_;
};

class CheckpointWriter {
 public:
  struct Options {
    std::string folder;
    std::string run = "";  ///< stands in the names of what is not finished, see CheckpointFolder
    int64_t file_bytes = default_file_bytes;
    int64_t keep = 0;          ///< 0: all
    bool asynchronous = true;  ///< false: nothing is copied, and the caller waits before the tensors change
    double rate = 0;           ///< for the manifest, as what follows
    std::map<std::string, std::string> job;
    std::string data;
    std::map<std::string, DataFile> data_files;
  };
  /// How a checkpoint ended.
  struct Outcome {
    int64_t step = 0;
    std::string error;  ///< empty: it is published; on every rank the same
    int64_t bytes = 0;
    double seconds = 0;
  };

  /// `tensors` must outlive this. The folder is there, and the same one for all ranks. Collective. Throws Failure
  /// (Cause::memory) when there is no room for the copy.
  CheckpointWriter(Rank& rank, const ProgramInfo& info, std::span<const Tensor> tensors, Options options);

  /// Begins a checkpoint; none may be under way. What rank 0 says of the run's course stands in it; where it is that
  /// of the best evaluation it is marked so as it is published. No communication.
  void begin(const Moment& moment, const Course& course = {}, bool best = false);
  /// Whether a checkpoint is under way: the same on every rank.
  bool busy() const { return stage_ != Stage::idle; }
  /// Bytes of the copies that are written while the run goes on.
  int64_t copied() const { return static_cast<int64_t>(copy_.bytes()); }
  /// Whether this rank's thread still works.
  bool working() const { return busy() && background_.running(); }
  /// Collective, while busy, when no rank works any more: goes on to the next stage. An outcome ends the checkpoint.
  std::optional<Outcome> advance();
  /// Waits for this rank's thread.
  void wait() { background_.join(); }

 private:
  enum class Stage { idle, making, writing, publishing };
  struct Piece {  // of a tensor, which this rank writes
    const Tensor* tensor;
    size_t index;  // among the shapes
    Share share;
    size_t copy;  // where its numbers begin in copy_
  };
  const std::byte* numbers(const Piece& piece) const;
  void work(Stage stage);
  void make_files() const;
  void write_share();
  void publish() const;
  std::string first_error();
  void sum_hashes();

  Rank& rank_;
  const ProgramInfo& info_;
  Options options_;
  CheckpointFolder folder_;
  FilePlan plan_;
  std::vector<SavedShape> shapes_;
  std::map<std::string, std::vector<std::string>> dims_;  // names, by tensor
  std::vector<Piece> pieces_;
  Mapping copy_;
  std::vector<uint64_t> hashes_;  // of this rank's share, then of the whole
  Stage stage_ = Stage::idle;
  Moment moment_;
  Course course_;
  bool best_ = false;
  std::chrono::steady_clock::time_point started_;
  Background background_;  // last: its thread ends before the rest goes
};

/// The tensors of a program that a checkpoint holds.
bool is_saved(const Tensor& tensor);
/// What this rank's parts of the tensors add to their hashes, summed over all ranks. Collective.
void sum_over_ranks(Rank& rank, Site site, std::span<uint64_t> hashes);

}  // namespace meshrt
