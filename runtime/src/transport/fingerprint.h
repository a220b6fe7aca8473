// fingerprint.h: what members tell each other of their calls, so that those that diverge are noticed, and what is said
// of a call to people.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

#include "transport/call.h"

namespace meshrt {

const char* name_of(Kind kind);
/// Of a message "send" or "receive".
const char* name_of(const Call& call);

/// What Fingerprint::shape says of a message.
struct MessageShape {
  bool sends = false;
  uint16_t slots = 1;
  int32_t micro_batch = -1;

  MessageShape() = default;
  explicit MessageShape(const Call& call);
  explicit MessageShape(uint64_t shape);
  uint64_t word() const;
};

/// Works out what a call of the group is announced with, and its bytes: once, however often it is made.
void prepare(const Group& group, Call& call);

/// Throws Failure (Cause::mismatch) naming both ranks unless member `index`'s announcement fits this member's call.
void check_match(const Group& group, const Call& call, const Fingerprint& mine, int index, const Fingerprint& theirs,
                 const ValueName& their_value);

/// What to say when the awaited member is late, or has ended without making the call.
std::string late_message(const Group& group, const Call& call, int member, std::chrono::nanoseconds waited);
std::string ended_message(const Group& group, const Call& call, int member);

/// "all_reduce of 'loss' (1 x f32, sum)": a call in messages.
std::string describe(const Call& call);
std::string describe(const Fingerprint& call, const char* value);

}  // namespace meshrt
