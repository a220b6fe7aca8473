// multiplicand.h: the form in which the operands of a product come to the register tile. Those of the sum's own type
// come as they are. bf16 is widened to f32, or, where the CPU has vdpbf16ps, comes in pairs: elements k and k + 1 of
// the inner extent as one number of 32 bits, the first in its lower half.
#pragma once
#include <type_traits>

#include "meshrt/bfloat16.h"
#include "tile.h"

namespace meshrt::MESHRT_ISA {

// `depth` elements of the inner extent are one multiplicand.
template <class T, class In>
struct Multiplicand {
  using Type = T;
  static constexpr int depth = 1;
};
#if defined(__AVX512BF16__)
template <>
struct Multiplicand<float, Bfloat16> {
  using Type = uint32_t;
  static constexpr int depth = 2;
};
#endif

// Elements 0 .. of the inner extent, `apart` from each other, of which `left` are there: beyond them are zeros.
template <class M, class In>
MESHRT_INLINE M multiplicand(const In* from, [[maybe_unused]] int64_t apart, [[maybe_unused]] int64_t left) {
  if constexpr (std::is_floating_point_v<M>) return static_cast<M>(*from);
  else return from->bits | (left > 1 ? M(from[apart].bits) << 16 : M(0));
}

// to [count] = the multiplicands of `count` neighbours.
template <int count, class M, class In>
MESHRT_INLINE void multiplicands(const In* from, int64_t apart, int64_t left, M* to) {
  if constexpr (std::is_same_v<M, In>) {
    for (int i = 0; i < count; i += lanes<M>) store(to + i, load(from + i));
  } else if (left > 1) {
    for (int i = 0; i < count; ++i) to[i] = multiplicand<M>(from + i, apart, 2);
  } else {
    for (int i = 0; i < count; ++i) to[i] = multiplicand<M>(from + i, apart, 1);
  }
}

// The multiplicands in `inner` elements of the inner extent.
template <class T, class In>
constexpr int64_t steps_of(int64_t inner) {
  return (inner + Multiplicand<T, In>::depth - 1) / Multiplicand<T, In>::depth;
}

// As many elements as fill a register of M.
template <class M, class In>
MESHRT_INLINE Vector<M> load_as(const In* from) {
  if constexpr (std::is_same_v<M, In>) {
    return load(from);
  } else {
    typedef uint16_t Half __attribute__((vector_size(vector_bytes / 2)));
    typedef uint32_t Whole __attribute__((vector_size(vector_bytes)));
    Half bits;
    __builtin_memcpy(&bits, from, sizeof bits);
    return (Vector<M>)(__builtin_convertvector(bits, Whole) << 16);
  }
}

// to [steps_of(inner), to_row] = the multiplicands of `count` columns, each of `inner` neighbours, `apart` elements
// from one to the next; and zeros up to the next multiple of `lanes` columns.
template <class T, class In, class M = typename Multiplicand<T, In>::Type>
inline void turn(const In* from, int64_t apart, int64_t count, int64_t inner, M* to, int64_t to_row) {
  constexpr int depth = Multiplicand<T, In>::depth;
  if constexpr (depth == 1) {
    transpose(
        from, apart, count, inner, to, to_row, [](const In* p) { return load_as<M>(p); },
        [](const In* p) { return static_cast<M>(*p); });
  } else if (apart % depth == 0 && inner % depth == 0) {
    transpose(
        reinterpret_cast<const M*>(from), apart / depth, count, inner / depth, to, to_row,
        [](const M* p) { return load(p); }, [](const M* p) { return read(p); });
  } else {
    for (int64_t k = 0; k < inner; k += depth)
      for (int64_t c = 0; c < round_up(count, lanes<M>); ++c)
        to[k / depth * to_row + c] = c < count ? multiplicand<M>(from + c * apart + k, 1, inner - k) : M(0);
  }
}

}  // namespace meshrt::MESHRT_ISA
