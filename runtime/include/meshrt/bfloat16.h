// bfloat16.h: the upper half of an f32: its exponent and 7 bits of its mantissa. Numbers are kept and moved as such;
// arithmetic on them is done in f32.
#pragma once
#include <cstdint>

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

}  // namespace meshrt
