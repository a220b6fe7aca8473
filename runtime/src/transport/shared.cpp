#include "transport/shared.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <numeric>

#include "meshrt/failure.h"
#include "transport/circle.h"
#include "transport/shared_call.h"

namespace meshrt {

namespace {

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<int> places_of(const std::vector<int>& members) {
  std::vector<int> places(members.empty() ? 0 : std::ranges::max(members) + 1, -1);
  for (size_t place = 0; place < members.size(); ++place) places[members[place]] = static_cast<int>(place);
  return places;
}

}  // namespace

SharedMemory::SharedMemory(int ranks)
    : members_(first_ranks(ranks)), places_(members_), segment_(segment_bytes(ranks), -1) {}

SharedMemory::SharedMemory(std::vector<int> members, int segment_file, int arena_file)
    : members_(std::move(members)),
      places_(places_of(members_)),
      arena_file_(arena_file),
      segment_(segment_bytes(static_cast<int>(members_.size())), segment_file) {
  close(segment_file);
}

SharedMemory::~SharedMemory() {
  if (arena_file_ >= 0) close(arena_file_);
}

std::byte* SharedMemory::map_arenas(size_t stride) {
  const std::lock_guard lock(mutex_);
  const size_t bytes = stride * members_.size();
  if (!arenas_.data() && bytes) {
    // Every process gives the file the same size.
    if (arena_file_ >= 0 && ftruncate(arena_file_, static_cast<off_t>(bytes)) != 0)
      throw Failure(Cause::memory, fmt::format("cannot make an arena of {} bytes", bytes));
    arenas_ = Mapping(bytes, arena_file_);
  }
  return arenas_.data();
}

SharedTransport::SharedTransport(int rank, std::shared_ptr<SharedMemory> memory, const WaitPolicy& policy,
                                 std::function<void()> meanwhile)
    : rank_(rank), memory_(std::move(memory)), policy_(policy), meanwhile_(std::move(meanwhile)) {}

SharedTransport::~SharedTransport() {
  // A rank that fails must not look like one that has ended in order.
  if (std::uncaught_exceptions() == 0) memory_->area(rank_).finished.store(1, std::memory_order_release);
}

void SharedTransport::job_barrier() {
  memory_->area(rank_).arrived.store(++barriers_, std::memory_order_release);
  for (const int other : memory_->members()) {
    const RankArea& area = memory_->area(other);
    wait_until(
        policy_, memory_->header().aborted,
        [&] { return reached(area.arrived.load(std::memory_order_acquire), barriers_); },
        [&] {
          meanwhile_();
          if (area.finished.load(std::memory_order_acquire) &&
              !reached(area.arrived.load(std::memory_order_acquire), barriers_))
            throw Failure(Cause::mismatch,
                          fmt::format("rank {} allocates, but rank {} has ended without", rank_, other));
        },
        [&] { return fmt::format("rank {} waits for rank {} to allocate its memory", rank_, other); });
  }
}

std::byte* SharedTransport::allocate_arena(size_t bytes, const UsedMemory& used) {
  memory_->area(rank_).arena_bytes.store(bytes + 1, std::memory_order_release);
  job_barrier();  // nobody touches memory before all have found that there is enough
  for (const int other : memory_->members())
    if (const uint64_t theirs = memory_->area(other).arena_bytes.load(std::memory_order_acquire); theirs != bytes + 1)
      throw Failure(Cause::mismatch, fmt::format("rank {} asks for an arena of {} bytes, rank {} of {}", rank_, bytes,
                                                 other, static_cast<int64_t>(theirs) - 1));
  stride_ = round_to_huge(bytes);
  arena_bytes_ = bytes;
  std::byte* arenas = memory_->map_arenas(stride_);
  if (!arenas) return nullptr;
  arena_ = arenas + stride_ * memory_->place(rank_);
  touch_ranges(arena_, used(rank_).arena);
  if (memory_->of_threads()) {
    job_barrier();
    return arena_;
  }
  make_huge(arena_, used(rank_).arena);
  job_barrier();  // before another rank maps small pages of it
  return arena_;
}

SharedTransport::Lines& SharedTransport::take_lines(const Group& group) {
  if (lines_.size() <= static_cast<size_t>(group.id)) lines_.resize(group.id + 1);
  RankArea& own = memory_->area(rank_);
  int place = 0;
  while (place < most_groups && own.keys[place].load(std::memory_order_relaxed) != 0) ++place;
  if (place == most_groups)
    throw Failure(Cause::usage, fmt::format("rank {} is in more than {} groups of ranks and channels that it calls",
                                            rank_, most_groups));
  own.keys[place].store(group.key, std::memory_order_release);
  auto& lines = lines_[group.id];
  lines = std::make_unique<Lines>(group.size());
  (*lines)[group.index] = &own.groups[place];
  return *lines;
}

void SharedTransport::look_for_circle(int awaited, const Group& group, uint32_t sequence) {
  if (group.id >= most_groups) return;  // a level of a group (hosts.h), whose calls begin by themselves
  tell_awaited(*memory_, rank_, awaited, group.key, sequence);
  const std::vector<int> circle = circle_of(*memory_, rank_);
  const auto now = std::chrono::steady_clock::now();
  if (circle.empty() || rank_ != std::ranges::min(circle)) in_circle_ = {};  // one of them tells it
  else if (in_circle_ == std::chrono::steady_clock::time_point{}) in_circle_ = now;
  else if (now - in_circle_ > std::chrono::seconds(1)) throw Failure(Cause::mismatch, circle_message(*memory_, circle));
}

Task SharedTransport::task_of(const Group& group, const Call& call, HeadOfQueue& head) {
  const SharedCall shared(*this, group, call);
  shared.begin();
  if (is_small(call)) return shared_small(shared, call, head);
  switch (call.kind) {
    case Kind::all_reduce: return shared_all_reduce(shared, call, head);
    case Kind::permute:
    case Kind::message: return shared_permute(shared, call, head);
    case Kind::reduce_scatter:
    case Kind::all_gather:
    case Kind::all_to_all:
    case Kind::broadcast:
    case Kind::barrier: break;
  }
  return shared_movement(shared, call, head);
}

bool SharedTransport::run_at_once(const Group& group, const Call& call) {
  if (!is_small(call)) return false;
  const SharedCall shared(*this, group, call);
  shared.begin();
  run_small(shared, call);
  return true;
}

}  // namespace meshrt
