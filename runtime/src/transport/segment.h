// segment.h: what ranks that share memory tell each other, as it lies in memory. One segment per job: a header, then an
// area per rank, which that rank alone writes (but for `aborted`) and the others read.
//
// A rank takes the next lines of its area for each group that it calls first, and names them by the group's key; others
// find them by it. So ranks need not ask for their groups in one order. The area is as large as the most groups need;
// only what is used of it becomes memory.
//
// A call announces itself in a slot of its group: what it is (Fingerprint), where its source lies, and small
// contributions themselves. Later steps of a call are counted in `phase` and `taken` as (sequence << 32 | step), so no
// counter has to be reset and ranks that skip a call are never ahead.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/fingerprint.h"

namespace meshrt {

constexpr int most_groups = 1024;        ///< and channels, of one rank
constexpr uint32_t slots = 8;            ///< calls of a group that can be announced; see Transport::max_pending
constexpr int64_t line_payload = 16;     ///< bytes of a contribution that fit beside the announcement
constexpr int64_t small_payload = 1024;  ///< bytes of a contribution that are handed over in `small`; of
                                         ///< a longer one of several values, where they lie
static_assert(most_items * sizeof(int64_t) <= small_payload);
constexpr int64_t bounce_bytes = 64 << 10;  ///< of each of the four buffers for data that lies outside the arena

/// Two cache lines: what is read in every call, and what is read in messages.
struct alignas(128) Slot {
  std::atomic<uint32_t> sequence;  ///< written last: the rest is of this call
  Fingerprint print;
  int64_t source;  ///< offset in the rank's arena, or -1: outside
  std::byte payload[line_payload];
  ValueName value;
};
static_assert(sizeof(Slot) == 128);

struct GroupLines {
  Slot slot[slots];
  alignas(64) std::atomic<uint64_t> phase;  ///< steps of a call that all members take together
  alignas(64) std::atomic<uint64_t> taken;  ///< steps that the receiver of a permute has taken
  alignas(64) std::atomic<uint32_t> begun;  ///< the last call that the member has begun, announced or not
  alignas(64) std::byte small[slots][small_payload];
  alignas(4096) std::byte bounce[4][bounce_bytes];
};

struct RankArea {
  alignas(64) std::atomic<uint32_t> arrived;  ///< rounds of the job-wide barrier
  std::atomic<uint32_t> finished;             ///< 1: the rank has left the job in order
  std::atomic<uint64_t> arena_bytes;          ///< asked for, plus 1
  std::atomic<uint64_t> awaited_group;        ///< what it waits for since some milliseconds, see circle.h: a call of
                                              ///< the group with this key,
  std::atomic<uint32_t> awaited_call;         ///< by its number,
  std::atomic<int32_t> awaited_rank;          ///< that this rank, plus 1, has not begun
  std::atomic<uint64_t> keys[most_groups];    ///< Group::key of each of `groups`; 0: not taken yet
  alignas(4096) GroupLines groups[most_groups];
};

struct SegmentHeader {
  std::atomic<uint32_t> aborted;  ///< 1: a rank failed, everybody stops
};

constexpr size_t segment_header_bytes = 4096;
constexpr size_t segment_bytes(int ranks) { return segment_header_bytes + ranks * sizeof(RankArea); }
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace meshrt
