#include "system/token.h"

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

class SipHash {
 public:
  explicit SipHash(const SipKey& key)
      : a_(key[0] ^ 0x736f6d6570736575),
        b_(key[1] ^ 0x646f72616e646f6d),
        c_(key[0] ^ 0x6c7967656e657261),
        d_(key[1] ^ 0x7465646279746573) {}

  void take(uint64_t word) {
    d_ ^= word;
    rounds(2);
    a_ ^= word;
    length_ += sizeof word;
  }
  uint64_t finish(std::string_view bytes) {
    for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data(), 8);
      take(word);
    }
    uint64_t last = (length_ + bytes.size()) << 56;
    for (size_t i = 0; i < bytes.size(); ++i) last |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    take(last);
    c_ ^= 0xff;
    rounds(4);
    return a_ ^ b_ ^ c_ ^ d_;
  }

 private:
  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      a_ += b_, b_ = std::rotl(b_, 13) ^ a_, a_ = std::rotl(a_, 32);
      c_ += d_, d_ = std::rotl(d_, 16) ^ c_;
      a_ += d_, d_ = std::rotl(d_, 21) ^ a_;
      c_ += b_, b_ = std::rotl(b_, 17) ^ c_, c_ = std::rotl(c_, 32);
    }
  }

  uint64_t a_, b_, c_, d_;
  uint64_t length_ = 0;
};

}  // namespace

uint64_t siphash(const SipKey& key, std::string_view bytes) { return SipHash(key).finish(bytes); }

uint64_t siphash(const SipKey& key, uint64_t number, std::string_view bytes) {
  SipHash hash(key);
  hash.take(number);
  return hash.finish(bytes);
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

Token Token::chosen(std::string_view text, const std::string& what) {
  constexpr size_t shortest = 16;
  if (text.size() < shortest)
    throw Failure(Cause::usage,
                  fmt::format("{} has {} characters, and who sees it used could find it by trying; at least {} are "
                              "needed, as `openssl rand -hex 16` prints them",
                              what, text.size(), shortest));
  return from(text);
}

std::string Token::text() const { return fmt::format("{:016x}{:016x}", key_[0], key_[1]); }

uint64_t Token::proof(std::string_view words) const { return siphash(key_, words); }

SipKey Token::key(std::string_view purpose) const { return {siphash(key_, 0, purpose), siphash(key_, 1, purpose)}; }

std::string draw_nonce() {
  std::string nonce(16, '\0');
  draw_bytes(nonce.data(), nonce.size());
  return nonce;
}

}  // namespace meshrt
