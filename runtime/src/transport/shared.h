// shared.h: the transport of ranks that share memory. Threads and processes differ only in where the memory comes from.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "system/wait.h"
#include "transport/memory.h"
#include "transport/segment.h"
#include "transport/transport.h"

namespace meshrt {

/// The memory of a job, or of its part on one host: the segment from the beginning, the arenas of all its ranks, one
/// after the other, once their size is known.
class SharedMemory {
 public:
  /// Of threads: memory of this process.
  explicit SharedMemory(int ranks);
  /// Of processes, which are the ranks `members` of their job: two files without names that the launcher made (see
  /// launch). Takes the descriptors over.
  SharedMemory(std::vector<int> members, int segment_file, int arena_file);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  const std::vector<int>& members() const { return members_; }
  /// Where a member's part lies among the others'.
  int place(int rank) const { return places_[rank]; }
  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(segment_.data()); }
  RankArea& area(int rank) const {
    return reinterpret_cast<RankArea*>(segment_.data() + segment_header_bytes)[places_[rank]];
  }

  /// Maps the arenas of all members, `stride` bytes each; the same for every caller. Safe from several threads.
  std::byte* map_arenas(size_t stride);
  bool of_threads() const { return arena_file_ < 0; }

 private:
  std::vector<int> members_, places_;
  int arena_file_ = -1;
  Mapping segment_, arenas_;
  std::mutex mutex_;
};

class SharedTransport : public Transport {
 public:
  /// `meanwhile` is called about every millisecond of a long wait.
  SharedTransport(
      int rank, std::shared_ptr<SharedMemory> memory, const WaitPolicy& policy,
      std::function<void()> meanwhile = [] {});
  ~SharedTransport() override;

  std::byte* allocate_arena(size_t bytes, const UsedMemory& used) override;
  bool shares_arenas() const override { return !memory_->of_threads(); }
  std::byte* arena_of(const Group& group, int member) override {
    const int places = memory_->place(group.members[static_cast<size_t>(member)]) - memory_->place(rank_);
    return arena_ + places * static_cast<int64_t>(stride_);
  }
  Task task_of(const Group& group, const Call& call, HeadOfQueue& head) override;
  bool run_at_once(const Group& group, const Call& call) override;
  const WaitPolicy& policy(const Group&) override { return policy_; }
  const std::atomic<uint32_t>& aborted() const override { return memory_->header().aborted; }
  void set_timeout(double seconds) override { policy_.set_timeout(seconds); }

 private:
  friend class SharedCall;

  /// Where the members of a group write; null: one has not come to it yet.
  using Lines = std::vector<GroupLines*>;

  void job_barrier();
  /// Another rank has been awaited for some milliseconds, for a call of a group that the program names. Throws Failure
  /// (Cause::mismatch) when it waits for this one, by itself or through others, and none of them can go on.
  void look_for_circle(int awaited, const Group& group, uint32_t sequence);
  Lines& lines_of(const Group& group) {
    const auto place = static_cast<size_t>(group.id);
    return place < lines_.size() && lines_[place] ? *lines_[place] : take_lines(group);
  }
  Lines& take_lines(const Group& group);

  int rank_;
  std::shared_ptr<SharedMemory> memory_;
  WaitPolicy policy_;
  std::function<void()> meanwhile_;
  std::byte* arena_ = nullptr;
  size_t arena_bytes_ = 0, stride_ = 0;
  uint32_t barriers_ = 0;
  std::chrono::steady_clock::time_point in_circle_;  // since when; zero: it is in none
  std::vector<std::unique_ptr<Lines>> lines_;        // by Group::id
};

}  // namespace meshrt
