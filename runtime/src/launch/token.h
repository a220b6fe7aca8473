// token.h: the secret that the launchers of one job share, so that nobody else joins it. It never travels: each side
// proves that it has it by hashing it with a number that the other has just drawn.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace meshrt {

class Token {
 public:
  /// 128 random bits.
  static Token draw();
  /// From its text: 32 hexadecimal digits are the token itself, other words are hashed. A word that others know
  /// protects from mistakes, not from attacks.
  static Token from(std::string_view text);

  std::string text() const;
  /// What only those can say who have the token: the hash of `words` (SipHash-2-4).
  uint64_t proof(std::string_view words) const;

 private:
  std::array<uint64_t, 2> key_{};
};

/// Random bytes, for use once.
std::string draw_nonce();

/// SipHash-2-4 of Aumasson and Bernstein.
uint64_t siphash(const std::array<uint64_t, 2>& key, std::string_view bytes);

}  // namespace meshrt
