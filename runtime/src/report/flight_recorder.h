// flight_recorder.h: the last collectives of a rank, in a file that is mapped into its memory (flight_place.h): what is
// written there stays when the rank is killed, and costs no system call. `meshrun postmortem` and the launcher read it
// in the run's folder.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "meshrt/program_info.h"
#include "meshrt/types.h"
#include "transport/call.h"

namespace meshrt {

/// One call, in the file as it lies here. `number` counts all calls of the rank from 1 and is written last; 0: empty.
struct FlightCall {
  std::atomic<uint64_t> number;
  std::atomic<int64_t> begun, ended;  ///< nanoseconds since 1970; ended 0: under way
  int64_t step, count;
  uint32_t group;       ///< size
  int32_t site;         ///< in the table of the file's head; -1: none
  int32_t micro_batch;  ///< of a message; -1: none
  int32_t peer;         ///< of a message: the rank it goes to, or -1 less the rank that it comes from
  Kind kind;
  Type type;
  Reduce reduce;
  uint8_t started;  ///< 1: by a call that does not wait
  char value[36];
};
static_assert(sizeof(FlightCall) == 96);

constexpr char flight_magic[] = "meshrtF2";
constexpr size_t flight_calls = 512, flight_sites = 256;

struct FlightFile {
  char magic[8];
  int32_t rank, ranks, pid, sites;
  char host[64], program[64];
  std::atomic<int64_t> step;      ///< that is running, or was last
  std::atomic<uint64_t> awaited;  ///< number of a started call that the rank waits for; 0: of none
  std::atomic<uint64_t> action;   ///< of a pipeline's row: PipelineAction::word; 0: none
  std::atomic<int32_t> finished;  ///< 1: in order, 2: with `failure`
  char failure[1020];
  char site[flight_sites][32];  ///< "gpt.mesh:52"
  FlightCall calls[flight_calls];
};
static_assert(std::atomic<int64_t>::is_always_lock_free);

class FlightRecorder {
 public:
  /// Begins the file of this rank in `folder`, and takes in the calls of this thread while it lives. Without room on
  /// the disk, or without a folder, nothing is recorded.
  FlightRecorder(const std::string& folder, int rank, int ranks, const ProgramInfo& info);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  /// Of this thread; null: none.
  static FlightRecorder*& current();

  void step(int64_t number) {
    if (file_) file_->step.store(number, std::memory_order_relaxed);
  }
  /// What of a pipeline's row is running; 0: nothing.
  void action(uint64_t word) {
    if (file_) file_->action.store(word, std::memory_order_relaxed);
  }
  /// Notes a call as it begins; end() when it is done.
  FlightCall* begin(const Call& call, bool started = false);
  /// The rank waits for one that was started; null: no longer.
  void await(const FlightCall* call) {
    if (file_) file_->awaited.store(call ? call->number.load(std::memory_order_relaxed) : 0, std::memory_order_relaxed);
  }
  static void end(FlightCall* call);
  /// The rank ends: empty: in order.
  void finish(const std::string& failure);

  const std::string& path() const { return path_; }

 private:
  FlightFile* file_ = nullptr;
  uint64_t calls_ = 0;
  std::string path_;
  FlightRecorder* before_;
};

/// "runs/gpt-0001/flight/rank-0003"
std::string flight_path(const std::string& folder, int rank);

/// Removes from the folder of a run of so many ranks what an earlier run in it has left of further ones.
void drop_further_flights(const std::string& folder, int ranks);

}  // namespace meshrt
