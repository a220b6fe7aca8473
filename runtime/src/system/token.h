// token.h: the secret that the launchers of one job share, so that nobody else joins it. It never travels: each side
// proves that it has it by hashing it with a number that the other has just drawn.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace meshrt {

using SipKey = std::array<uint64_t, 2>;

class Token {
 public:
  /// 128 random bits.
  static Token draw();
  /// From its text: 32 hexadecimal digits are the token itself, other words are hashed. A word that others know
  /// protects from mistakes, not from attacks.
  static Token from(std::string_view text);
  /// From a text that a person has chosen, who calls it `what`. Throws Failure (Cause::usage) where it is so short that
  /// who has seen one proof can find it by trying.
  static Token chosen(std::string_view text, const std::string& what);

  std::string text() const;
  /// What only those can say who have the token: the hash of `words` (SipHash-2-4).
  uint64_t proof(std::string_view words) const;
  /// A key that only those have who have the token, another one for each `purpose`.
  SipKey key(std::string_view purpose) const;

 private:
  SipKey key_{};
};

/// Random bytes, for use once.
std::string draw_nonce();

/// SipHash-2-4 of Aumasson and Bernstein.
uint64_t siphash(const SipKey& key, std::string_view bytes);
/// The same of `bytes` behind the eight bytes of a number.
uint64_t siphash(const SipKey& key, uint64_t number, std::string_view bytes);

}  // namespace meshrt
