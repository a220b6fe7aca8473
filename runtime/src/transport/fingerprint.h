// fingerprint.h: what members tell each other of their calls, so that those that diverge are noticed, and what is said
// of a call to people.
#pragma once
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>

#include "transport/call.h"

namespace meshrt {

const char* name_of(Kind kind);

/// What a member announces with a call and the others compare with their own. 32 bytes.
struct Fingerprint {
  uint32_t sequence = 0;
  int32_t site = -1;
  Kind kind = Kind::barrier;
  Type type = Type::u8;
  Reduce reduce = Reduce::sum;
  uint8_t members = 0;  ///< size of the group, modulo 256
  uint32_t axes = 0;    ///< hash of the group's axes
  int64_t count = 0;
  uint64_t shape = 0;  ///< hash of the parts; root of a broadcast; partners of a permute
};
static_assert(sizeof(Fingerprint) == 32);

Fingerprint fingerprint(const Group& group, const Call& call);

/// Whether two are equal. Word by word, as `fingerprint` makes them: what was written a moment ago in other pieces
/// would have to reach the cache first.
inline bool same(const Fingerprint& a, const Fingerprint& b) {
  using Words = std::array<uint64_t, 4>;
  return std::bit_cast<Words>(a) == std::bit_cast<Words>(b);
}

/// The name of the value, as far as it fits, for messages.
struct ValueName {
  char text[32] = {};
  /// In place, for the same reason.
  void assign(Site site) { std::strncpy(text, site.value, sizeof text - 1); }
};

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
