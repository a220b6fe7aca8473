// bfloat16.h: the upper half of an f32: its exponent and 7 bits of its mantissa. Numbers are kept and moved as such;
// arithmetic on them is done in f32.
#pragma once
#include <cstdint>

#include "meshrt/math.h"

namespace meshrt {

struct Bfloat16 {
  uint16_t bits;

  Bfloat16() = default;
  /// To the nearest, ties to even. A NaN stays one.
  [[gnu::always_inline]] constexpr explicit Bfloat16(float value)
      : bits(rounded(__builtin_bit_cast(uint32_t, value))) {}
  [[gnu::always_inline]] constexpr explicit operator float() const {
    return __builtin_bit_cast(float, uint32_t{bits} << 16);
  }

 private:
  [[gnu::always_inline]] static constexpr uint16_t rounded(uint32_t bits) {
    const uint32_t nearest = bits + 0x7fff + (bits >> 16 & 1);
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return static_cast<uint16_t>((is_nan ? bits | 0x400000 : nearest) >> 16);
  }
};

/// An f32 in memory that whoever reads it takes as the number of bf16 to which it rounds.
struct AsBfloat16 {
  float value;

  [[gnu::always_inline]] constexpr explicit operator Bfloat16() const { return Bfloat16(value); }
  [[gnu::always_inline]] constexpr explicit operator float() const { return float(Bfloat16(value)); }
};

/// x to one of the two numbers of bf16 beside it, with `u` uniform in [0, 1): the farther away from 0 as likely as x is
/// near it, so that the mean of many is x. What is bf16, infinite or NaN stays so.
MESHRT_INLINE float round_bf16(float x, float u) {
  const uint32_t bits = detail::bits(x), added = bits + static_cast<uint32_t>(static_cast<int32_t>(u * 65536));
  const bool is_finite = (bits & 0x7f800000) != 0x7f800000;
  return detail::select(is_finite, detail::number<float>(added & 0xffff0000), x);
}

}  // namespace meshrt
