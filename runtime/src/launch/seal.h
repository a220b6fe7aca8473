// seal.h: shows that what comes over a connection is what the peer has sent: all of it, unchanged, in its order. Each
// piece is followed by a hash (SipHash, a MAC) of its number and its bytes, by a key of this connection and direction
// alone: a piece that is changed, left out, put in, repeated, or sent back does not fit.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "system/token.h"

namespace meshrt {

class Seal {
 public:
  static constexpr size_t bytes = sizeof(uint64_t);

  explicit Seal(const SipKey& key) : key_(key) {}
  /// Of the next piece.
  std::string next(std::string_view piece) {
    const uint64_t hash = siphash(key_, count_++, piece);
    return {reinterpret_cast<const char*>(&hash), sizeof hash};
  }

 private:
  SipKey key_;
  uint64_t count_ = 0;
};

/// The two directions of a connection.
struct Seals {
  Seal to_agent, to_coordinator;
};

/// Both ends make them alike: from the token and from the number that each has drawn for this connection.
Seals seals_of(const Token& token, const std::string& coordinator_nonce, const std::string& agent_nonce);

}  // namespace meshrt
