// shared_call.h: one call of one member over shared memory: announce it, await the others' announcements and steps,
// find their buffers. The algorithms in collectives/shared_*.cpp are written with this; they co_await its conditions.
#pragma once
#include <cstdint>

#include "transport/fingerprint.h"
#include "transport/shared.h"
#include "transport/task.h"

namespace meshrt {

class SharedCall {
 public:
  SharedCall(SharedTransport& transport, const Group& group, const Call& call)
      : transport_(transport),
        group_(group),
        call_(call),
        memory_(*transport.memory_),
        lines_(transport.lines_of(group)) {}

  int size() const { return group_.size(); }
  int me() const { return call_.me; }

  /// Members [first, last) but this one have come so far, as `Which` has it of one. What each of them has written is
  /// read in its order.
  template <class Which>
  class Others : public Condition {
   public:
    bool met() final {
      for (; member_ < last_; ++member_)
        if (member_ != call_.me() && !static_cast<Which*>(this)->reached_by(member_)) return false;
      return true;
    }
    void look() override { call_.look(member_, call_.call_.sequence); }
    std::string late() final { return call_.late_message(member_); }

   protected:
    Others(const SharedCall& call, int first, int last) : call_(call), member_(first), last_(last) {}
    const SharedCall& call_;

    int member_, last_;
  };
  /// They have announced this call. Throws Failure (Cause::mismatch) when one has announced another.
  struct Announced final : Others<Announced> {
    Announced(const SharedCall& call, int first, int last) : Others(call, first, last) {}
    bool reached_by(int member) const {
      if (!call_.has_announced(member, call_.call_.sequence)) return false;
      call_.check(member);
      return true;
    }
  };
  /// They have announced the call before it that used this member's slot last, so the slot can be written.
  struct SlotFree final : Others<SlotFree> {
    explicit SlotFree(const SharedCall& call) : Others(call, 0, call.size()) {}
    void look() final { call_.look(member_, before_this()); }
    bool reached_by(int member) const {
      // A member that has announced call s - max_pending has finished every call before s - 2 max_pending + 1, so it no
      // longer reads the slot that s reuses.
      static_assert(slots >= 2 * Transport::max_pending);
      return call_.has_announced(member, before_this());
    }
    uint32_t before_this() const { return call_.call_.sequence - Transport::max_pending; }
  };
  /// A counter of theirs has come to `step` (from 1) of this call, which they have announced.
  struct Stepped final : Others<Stepped> {
    Stepped(const SharedCall& call, int first, int last, std::atomic<uint64_t> GroupLines::*counter, uint32_t step)
        : Others(call, first, last), counter(counter), step(step) {}
    bool reached_by(int member) const {
      return step == 0 || reached((call_.lines(member).*counter).load(std::memory_order_acquire), call_.position(step));
    }
    std::atomic<uint64_t> GroupLines::*counter;
    uint32_t step;
  };

  /// Tells that this member has begun the call.
  void begin() const { lines(me()).begun.store(call_.sequence, std::memory_order_release); }
  SlotFree slot_free() const { return SlotFree(*this); }
  /// Writes this member's slot, which is free.
  void announce() const;
  Announced announced(int member) const { return {*this, member, member + 1}; }
  Announced all_announced() const { return {*this, 0, size()}; }

  /// Tells that this member has taken `step` of the call; another member, or all, have.
  void publish(uint32_t step) const { lines(me()).phase.store(position(step), std::memory_order_release); }
  Stepped stepped(int member, uint32_t step) const { return {*this, member, member + 1, &GroupLines::phase, step}; }
  Stepped all_stepped(uint32_t step) const { return {*this, 0, size(), &GroupLines::phase, step}; }
  /// The same for what the receiver of a permute has taken.
  void publish_taken(uint32_t step) const { lines(me()).taken.store(position(step), std::memory_order_release); }
  Stepped taken(int member, uint32_t step) const { return {*this, member, member + 1, &GroupLines::taken, step}; }

  /// Waits for a condition, in a call that is run without a task.
  template <class Awaited>
  void wait(Awaited condition) const {
    wait_until(
        transport_.policy_, transport_.aborted(), [&] { return condition.met(); }, [&] { condition.look(); },
        [&] { return condition.late(); });
  }

  /// Whether a member's sources lie in its arena; where the source of a value does then. Of announced calls.
  bool in_place(int member) const { return slot(member, call_.sequence).source >= 0; }
  std::byte* source_of(int member, const Item& item) const;
  /// True when all members' sources are in place. When all have announced.
  bool all_in_place() const;
  /// A member's contribution of a small all-reduce, which it has announced.
  const std::byte* small_of(int member) const {
    return call_.bytes <= line_payload ? slot(member, call_.sequence).payload : small(member);
  }
  std::byte* bounce(int member, int buffer) const { return lines(member).bounce[buffer]; }

 private:
  Slot& slot(int member, uint32_t sequence) const { return lines(member).slot[sequence % slots]; }
  GroupLines& lines(int member) const { return *lines_[member]; }  // of one that has announced a call there
  GroupLines* find_lines(int member) const;
  uint64_t position(uint32_t step) const { return static_cast<uint64_t>(call_.sequence) << 32 | step; }
  int64_t source_offset(const Item& item) const;
  int64_t announce_sources() const;
  std::byte* small(int member) const { return lines(member).small[call_.sequence % slots]; }
  bool has_announced(int member, uint32_t sequence) const {
    const GroupLines* const theirs = lines_[member] ? lines_[member] : find_lines(member);
    return reached(theirs ? theirs->slot[sequence % slots].sequence.load(std::memory_order_acquire) : 0, sequence);
  }
  /// Throws Failure (Cause::mismatch) when a member has announced another call.
  void check(int member) const {
    const Slot& theirs = slot(member, call_.sequence);
    if (FingerprintWords(theirs.print) != FingerprintWords::of_call(call_.announced.print, call_.sequence))
      check_match(group_, call_, slot(me(), call_.sequence).print, member, theirs.print, theirs.value);
  }
  /// At a member that has not come so far: it has not announced call `sequence`, or not taken a step of it.
  void look(int member, uint32_t sequence) const;
  std::string late_message(int member) const;

  SharedTransport& transport_;
  const Group& group_;
  const Call& call_;
  SharedMemory& memory_;
  SharedTransport::Lines& lines_;
};

/// Whether a call needs nothing of the others but their announcements.
inline bool is_small(const Call& call) {
  return call.kind == Kind::barrier || (call.kind == Kind::all_reduce && call.bytes <= small_payload);
}

// The algorithms: what announces a call and runs it, by kind. A small one can be run without a task, where nothing else
// of this rank has to go on meanwhile.
void run_small(const SharedCall& shared, const Call& call);
Task shared_small(SharedCall shared, const Call& call, HeadOfQueue& head);
Task shared_all_reduce(SharedCall shared, const Call& call, HeadOfQueue& head);
Task shared_movement(SharedCall shared, const Call& call, HeadOfQueue& head);
Task shared_permute(SharedCall shared, const Call& call, HeadOfQueue& head);

}  // namespace meshrt
