#include "launch/token.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <bit>
#include <cstdlib>
#include <cstring>

#include "meshrt/failure.h"

namespace meshrt {

namespace {

void draw_bytes(void* to, size_t bytes) {
  if (getentropy(to, bytes) != 0) throw Failure(Cause::environment, "this system gives no random numbers");
}

}  // namespace

uint64_t siphash(const std::array<uint64_t, 2>& key, std::string_view bytes) {
  uint64_t a = key[0] ^ 0x736f6d6570736575, b = key[1] ^ 0x646f72616e646f6d, c = key[0] ^ 0x6c7967656e657261,
           d = key[1] ^ 0x7465646279746573;
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      a += b, b = std::rotl(b, 13) ^ a, a = std::rotl(a, 32);
      c += d, d = std::rotl(d, 16) ^ c;
      a += d, d = std::rotl(d, 21) ^ a;
      c += b, b = std::rotl(b, 17) ^ c, c = std::rotl(c, 32);
    }
  };
  const auto take = [&](uint64_t word) {
    d ^= word;
    rounds(2);
    a ^= word;
  };
  uint64_t last = static_cast<uint64_t>(bytes.size()) << 56;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    take(word);
  }
  for (size_t i = 0; i < bytes.size(); ++i) last |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  take(last);
  c ^= 0xff;
  rounds(4);
  return a ^ b ^ c ^ d;
}

Token Token::draw() {
  Token token;
  draw_bytes(token.key_.data(), sizeof token.key_);
  return token;
}

Token Token::from(std::string_view text) {
  Token token;
  if (text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos) {
    for (size_t half = 0; half < 2; ++half)
      token.key_[half] = std::strtoull(std::string(text.substr(16 * half, 16)).c_str(), nullptr, 16);
    return token;
  }
  token.key_ = {siphash({0, 1}, text), siphash({2, 3}, text)};
  return token;
}

std::string Token::text() const { return fmt::format("{:016x}{:016x}", key_[0], key_[1]); }

uint64_t Token::proof(std::string_view words) const { return siphash(key_, words); }

std::string draw_nonce() {
  std::string nonce(16, '\0');
  draw_bytes(nonce.data(), nonce.size());
  return nonce;
}

}  // namespace meshrt
