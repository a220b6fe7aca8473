// shared_call.h: one call of one member over shared memory: announce it, wait for the others' announcements and steps,
// find their buffers. The algorithms in collectives/shared_*.cpp are written with this.
#pragma once
#include <cstdint>

#include "transport/shared.h"

namespace meshrt {

class SharedCall {
 public:
  SharedCall(SharedTransport& transport, const Group& group, const Call& call)
      : transport_(transport), group_(group), call_(call), memory_(*transport.memory_) {}

  int size() const { return group_.size(); }
  int me() const { return call_.me; }

  /// Writes this member's slot. Waits first for the few members (rarely any) that may still read what was in it.
  void announce();

  /// Waits for the slot of one member, or of all, and throws Failure (Cause::mismatch) when it is of another call.
  void await_slot(int member);
  void await_slots();

  /// Tells that this member has taken `step` (from 1) of the call; waits until another member, or all, have.
  void publish(uint32_t step) { lines(me()).phase.store(position(step), std::memory_order_release); }
  void await(int member, uint32_t step) { await_position(member, lines(member).phase, step); }
  void await_all(uint32_t step);
  /// The same for what the receiver of a permute has taken.
  void publish_taken(uint32_t step) { lines(me()).taken.store(position(step), std::memory_order_release); }
  void await_taken(int member, uint32_t step) { await_position(member, lines(member).taken, step); }

  /// Whether a member's sources lie in its arena; where the source of a value does then. After await_slot.
  bool in_place(int member) const { return slot(member, call_.sequence).source >= 0; }
  std::byte* source_of(int member, const Item& item) const;
  /// True when all members' sources are in place. After await_slots.
  bool all_in_place() const;
  /// A member's contribution of a small all-reduce. After await_slot.
  const std::byte* small_of(int member, int64_t bytes) const;
  std::byte* bounce(int member, int buffer) const { return memory_.area(group_.members[member]).bounce[buffer]; }

 private:
  Slot& slot(int member, uint32_t sequence) const { return lines(member).slot[sequence % slots]; }
  GroupLines& lines(int member) const { return memory_.area(group_.members[member]).groups[group_.id]; }
  uint64_t position(uint32_t step) const { return static_cast<uint64_t>(call_.sequence) << 32 | step; }
  int64_t source_offset(const Item& item) const;
  int64_t announce_sources();
  std::byte* small(int member) const {
    return memory_.area(group_.members[member]).small[group_.id][call_.sequence % slots];
  }
  void await_sequence(int member, uint32_t sequence);
  void await_position(int member, const std::atomic<uint64_t>& line, uint32_t step);
  void look(int member) const;
  std::string late_message(int member) const;

  SharedTransport& transport_;
  const Group& group_;
  const Call& call_;
  SharedMemory& memory_;
};

// The algorithms: what `finish` runs, by kind.
void shared_all_reduce(SharedCall& shared, const Call& call);
void shared_movement(SharedCall& shared, const Call& call);
void shared_permute(SharedCall& shared, const Call& call);

}  // namespace meshrt
