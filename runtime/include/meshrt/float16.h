// float16.h: f16, the 16 bits of IEEE 754: a sign, 5 bits of exponent and 10 of mantissa. Numbers are kept and moved as
// such; arithmetic on them is done in f32. Conversions have no branches, so that loops of them become vectors.
#pragma once
#include <cstdint>

#include "meshrt/math.h"

namespace meshrt {

struct Float16 {
  uint16_t bits;

  Float16() = default;
  /// To the nearest, ties to even; from 65520 on infinity. A NaN stays one.
  [[gnu::always_inline]] constexpr explicit Float16(float value) : bits(rounded(__builtin_bit_cast(uint32_t, value))) {}
  [[gnu::always_inline]] constexpr explicit operator float() const { return __builtin_bit_cast(float, widened(bits)); }

 private:
  static constexpr uint32_t bias = 0x38000000;          // what exponents of f32 are larger by
  static constexpr uint32_t least_normal = 0x38800000;  // 2^-14 in f32

  // Where the condition holds `yes`, else `no`: no ternary, for gcc moves what is computed for one into a branch.
  [[gnu::always_inline]] static constexpr uint32_t select(bool condition, uint32_t yes, uint32_t no) {
    const uint32_t mask = 0 - uint32_t{condition};
    return (yes & mask) | (no & ~mask);
  }
  [[gnu::always_inline]] static constexpr uint32_t add(uint32_t a, float b) {
    return __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, a) + b);
  }

  [[gnu::always_inline]] static constexpr uint16_t rounded(uint32_t bits) {
    constexpr uint32_t half = __builtin_bit_cast(uint32_t, 0.5F), infinity = 0x7c00;
    const uint32_t rest = bits & 0x7fffffff;
    const uint32_t normal = (rest - bias + 0xfff + (rest >> 13 & 1)) >> 13;
    const uint32_t subnormal = add(rest, 0.5F) - half;  // whose last place, 2^-24, the sum is rounded to
    const uint32_t finite = select(rest < least_normal, subnormal, normal);
    const uint32_t number = select(rest < 0x47800000, finite, infinity);
    return static_cast<uint16_t>((bits >> 16 & 0x8000) | select(rest > 0x7f800000, 0x7e00, number));
  }

  [[gnu::always_inline]] static constexpr uint32_t widened(uint32_t bits) {
    const uint32_t sign = (bits & 0x8000) << 16, rest = (bits & 0x7fff) << 13;
    const uint32_t normal = rest + bias + select(rest < 0x0f800000, 0, bias);  // infinity and NaN have the largest one
    const uint32_t subnormal = add(rest + least_normal, -0x1p-14F);
    return sign | select(rest < 0x00800000, subnormal, normal);
  }
};

/// x to one of the two numbers of f16 beside it, with `u` uniform in [0, 1): the farther away from 0 as likely as x is
/// near it, so that the mean of many is x. What is f16, infinite or NaN stays so. The neighbour above the largest
/// number, 65504, is infinity, where 65536 would be.
MESHRT_INLINE float round_f16(float x, float u) {
  using namespace detail;
  constexpr uint32_t least = 0x38800000, infinite = 0x47800000, one = 0x3f800000, ten = uint32_t{10} << 23;
  const uint32_t of_x = bits(abs(x)), size = of_x < infinite ? of_x : infinite, exponent = size & 0x7f800000;
  const uint32_t power = exponent < least ? least : exponent;  // the one below x, or 2^-14, below which steps are alike
  const float steps = number<float>(size) * number<float>(2 * one + ten - power);  // a 1024th of the power each
  const auto whole = static_cast<float>(static_cast<int32_t>(steps));
  const float taken = whole + select(u >= 1 - (steps - whole), 1.0F, 0.0F), near = taken * number<float>(power - ten);
  return select(x == x, copy_sign(select(near < 65536, near, infinity<float>), x), x);
}

}  // namespace meshrt
