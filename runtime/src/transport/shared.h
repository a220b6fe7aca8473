// shared.h: the transport of ranks that share memory. Threads and processes differ only in where the memory comes from.
#pragma once
#include <memory>
#include <mutex>

#include "transport/memory.h"
#include "transport/segment.h"
#include "transport/transport.h"
#include "transport/wait.h"

namespace meshrt {

/// The memory of a job: the segment from the beginning, the arenas of all ranks, one after the other, once their size
/// is known.
class SharedMemory {
 public:
  /// Of threads: memory of this process.
  explicit SharedMemory(int ranks);
  /// Of processes: two files without names that the launcher made (see launch). Takes the descriptors over.
  SharedMemory(int ranks, int segment_file, int arena_file);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int ranks() const { return ranks_; }
  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(segment_.data()); }
  RankArea& area(int rank) const { return reinterpret_cast<RankArea*>(segment_.data() + segment_header_bytes)[rank]; }

  /// Maps the arenas of all ranks, `stride` bytes each; the same for every caller. Safe from several threads.
  std::byte* map_arenas(size_t stride);
  bool of_threads() const { return arena_file_ < 0; }

 private:
  int ranks_;
  int arena_file_ = -1;
  Mapping segment_, arenas_;
  std::mutex mutex_;
};

class SharedTransport : public Transport {
 public:
  SharedTransport(int rank, std::shared_ptr<SharedMemory> memory, const WaitPolicy& policy);
  ~SharedTransport() override;

  std::byte* allocate_arena(size_t bytes) override;

 protected:
  void post(const Group& group, const Call& call) override;
  void finish(const Group& group, const Call& call) override;

 private:
  friend class SharedCall;

  void job_barrier();

  int rank_;
  std::shared_ptr<SharedMemory> memory_;
  WaitPolicy policy_;
  std::byte* arena_ = nullptr;
  size_t arena_bytes_ = 0, stride_ = 0;
  uint32_t barriers_ = 0;
};

}  // namespace meshrt
