// random.h: random numbers that depend only on what they are for: Philox4x32-10 with a key from (seed, path) and a
// counter from the global logical index of the element and the draw (step, loop turns). So they are the same for every
// layout, micro-batch, schedule and recomputation, and one element can be made without its neighbours.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "meshrt/math.h"

namespace meshrt {

/// Philox4x32-10 (Salmon et al., 2011): four random words from a counter of four words and a key of two.
MESHRT_INLINE std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  auto [a, b, c, d] = counter;
  auto [k0, k1] = key;
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const uint64_t ab = uint64_t(a) * 0xD2511F53u, cd = uint64_t(c) * 0xCD9E8D57u;
    a = static_cast<uint32_t>(cd >> 32) ^ b ^ k0;
    c = static_cast<uint32_t>(ab >> 32) ^ d ^ k1;
    b = static_cast<uint32_t>(cd), d = static_cast<uint32_t>(ab);
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {a, b, c, d};
}

/// 64-bit FNV-1a.
constexpr uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

namespace detail {
// A bijection of 64 bits in which every input bit moves every output bit (SplitMix64's last stage).
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
}  // namespace detail

/// What a tensor of random numbers is for.
struct RandomKey {
  uint64_t key = 0, draw = 0;

  /// The numbers of a parameter, or of the op with this path.
  constexpr RandomKey(uint64_t seed, std::string_view path) : key(detail::mix(detail::mix(seed) ^ hash_of(path))) {}
  /// The same for one step, one turn of a loop: key.at(step).at(layer).
  constexpr RandomKey at(uint64_t turn) const {
    RandomKey next = *this;
    next.draw = detail::mix(draw + turn + 0x9e3779b97f4a7c15u);
    return next;
  }
};

/// The four words of the element with this global logical index.
MESHRT_INLINE std::array<uint32_t, 4> random_words(RandomKey key, uint64_t index) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  return philox({low(index), high(index), low(key.draw), high(key.draw)}, {low(key.key), high(key.key)});
}

namespace detail {
// 52 bits of two words, plus half a unit: in (0, 1), never its ends. (An integer's bits under the exponent of 1 .. 2.)
MESHRT_INLINE double open_unit(uint32_t high, uint32_t low) {
  const uint64_t fraction = (uint64_t(high) << 20) | (low >> 12);
  return number<double>(fraction | bits(1.0)) - (1 - 0x1p-53);
}
}  // namespace detail

/// Uniform in [0, 1), from the element's first word: a multiple of 2^-24.
template <class T>
MESHRT_INLINE T uniform(RandomKey key, int64_t index) {
  return static_cast<T>(static_cast<int32_t>(random_words(key, static_cast<uint64_t>(index))[0] >> 8)) * T(0x1p-24);
}

/// Normal with mean 0 and deviation 1 (Box and Muller), made in f64 whatever T: both precisions see the same model.
template <class T>
MESHRT_INLINE T normal(RandomKey key, int64_t index) {
  const auto words = random_words(key, static_cast<uint64_t>(index));
  const double radius = sqrt(-2 * log(detail::open_unit(words[0], words[1])));
  return static_cast<T>(radius * cos(6.283185307179586 * detail::open_unit(words[2], words[3])));
}

/// One dim of a tensor's local part: [begin, end) of `size`.
struct Part {
  int64_t size, begin, end;
};

/// Fills the local part (row-major) of a tensor with dims `parts` with what the whole tensor has there.
/// Uniform in [low, high).
template <class T>
void fill_uniform(T* to, std::span<const Part> parts, RandomKey key, double low, double high);
/// Normal.
template <class T>
void fill_normal(T* to, std::span<const Part> parts, RandomKey key, double mean, double deviation);
/// Normal, drawn again until it lies within two deviations; not rescaled.
template <class T>
void fill_truncated_normal(T* to, std::span<const Part> parts, RandomKey key, double mean, double deviation);

}  // namespace meshrt
