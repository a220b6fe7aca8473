// announcement.h: what a member tells the others of its call before anything else, so that ranks that diverge are
// noticed and both calls can be named.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "meshrt/collectives.h"

namespace meshrt {

enum class Kind : uint8_t { all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, permute, message, barrier };

/// What the others compare with their own. 32 bytes.
struct Fingerprint {
  uint32_t sequence = 0;
  int32_t site = -1;
  Kind kind = Kind::barrier;
  Type type = Type::u8;
  Reduce reduce = Reduce::sum;
  uint8_t members = 0;  ///< size of the group, modulo 256
  uint32_t group = 0;   ///< of its key
  int64_t count = 0;
  uint64_t shape = 0;  ///< hash of the parts; root of a broadcast; partners of a permute; which message
};
static_assert(sizeof(Fingerprint) == 32);

/// A fingerprint as it is written, read and compared: what was written a moment ago in other pieces would have to reach
/// the cache first.
struct FingerprintWords {
  uint64_t first, second, third, fourth;

  explicit FingerprintWords(const Fingerprint& print) { std::memcpy(this, &print, sizeof print); }
  static FingerprintWords of_call(const Fingerprint& print, uint32_t number) {
    FingerprintWords words(print);
    words.first = words.first >> 32 << 32 | number;
    return words;
  }
  void store(Fingerprint& to) const { std::memcpy(static_cast<void*>(&to), this, sizeof to); }
  bool operator==(const FingerprintWords&) const = default;
};
static_assert(std::endian::native == std::endian::little);

/// The name of the value, as far as it fits, for messages.
struct ValueName {
  char text[32] = {};
  void assign(Site site) { std::strncpy(text, site.value, sizeof text - 1); }
};

struct Announcement {
  Fingerprint print;
  ValueName value;
};

}  // namespace meshrt
