// multiplicand.h: the form in which the operands of a product come to the register tile. Those of the sum's own type
// come as they are. bf16 and f16 are widened to f32, or, where the CPU has vdpbf16ps and both operands are bf16, come
// in pairs: elements k and k + 1 of the inner extent as one number of 32 bits, the first in its lower half.
#pragma once
#include <type_traits>

#include "meshrt/bfloat16.h"
#include "meshrt/float16.h"
#include "simd.h"

namespace meshrt::MESHRT_ISA {

// What elements of A and B become, to be added up in T.
#if defined(__AVX512BF16__)
template <class T, class A, class B>
using Multiplicand = std::conditional_t<std::is_same_v<A, Bfloat16> && std::is_same_v<B, Bfloat16>, uint32_t, T>;
#else
template <class T, class A, class B>
using Multiplicand = T;
#endif

// So many elements of the inner extent are one multiplicand.
template <class M>
inline constexpr int depth = std::is_floating_point_v<M> ? 1 : 2;

// The multiplicands in `inner` elements of the inner extent.
template <class M>
constexpr int64_t steps_of(int64_t inner) {
  return (inner + depth<M> - 1) / depth<M>;
}

// Elements 0 .. of the inner extent, `apart` from each other, of which `left` are there: beyond them are zeros.
template <class M, class In>
MESHRT_INLINE M multiplicand(const In* from, [[maybe_unused]] int64_t apart, [[maybe_unused]] int64_t left) {
  if constexpr (std::is_floating_point_v<M>) return static_cast<M>(*from);
  else return from->bits | (left > 1 ? M(from[apart].bits) << 16 : M(0));
}

// The bits of as many numbers of 16 bits as fill a register when they are widened to f32, and that register.
typedef uint16_t Halves __attribute__((vector_size(vector_bytes / 2)));
template <class In>
MESHRT_INLINE Vector<float> widened(Halves bits) {
  if constexpr (std::is_same_v<In, Bfloat16>) {
    return (Vector<float>)(__builtin_convertvector(bits, Vector<uint32_t>) << 16);
  } else {
#if defined(__AVX512F__)
    return _mm512_cvtph_ps((__m256i)bits);
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
    return _mm256_cvtph_ps((__m128i)bits);
#elif defined(MESHRT_NEON)
    return (Vector<float>)vcvt_f32_f16((float16x4_t)bits);
#else
    Vector<float> x;
    for (int i = 0; i < lanes<float>; ++i) x[i] = static_cast<float>(__builtin_bit_cast(In, uint16_t{bits[i]}));
    return x;
#endif
  }
}

// As many elements as fill a register of M.
template <class M, class In>
MESHRT_INLINE Vector<M> load_as(const In* from) {
  if constexpr (std::is_same_v<M, In>) {
    return load(from);
  } else {
    Halves bits;
    __builtin_memcpy(&bits, from, sizeof bits);
    return widened<In>(bits);
  }
}

// to [count] = the multiplicands of `count` neighbours.
template <int count, class M, class In>
MESHRT_INLINE void multiplicands(const In* from, [[maybe_unused]] int64_t apart, [[maybe_unused]] int64_t left, M* to) {
  if constexpr (depth<M> == 1) {
    for (int i = 0; i < count; i += lanes<M>) store(to + i, load_as<M>(from + i));
  } else if (left > 1) {
    for (int i = 0; i < count; ++i) to[i] = multiplicand<M>(from + i, apart, 2);
  } else {
    for (int i = 0; i < count; ++i) to[i] = multiplicand<M>(from + i, apart, 1);
  }
}

// A register of what lies there: multiplicands, or pairs of neighbours that become two each.
template <class M, class In>
MESHRT_INLINE auto load_whole(const In* from) {
  if constexpr (std::is_same_v<M, In>) return load(from);
  else return (Vector<uint32_t>)load(&from->bits);
}
template <class M, class In>
inline constexpr int parts_of_whole = std::is_same_v<M, In> ? 1 : 2;

// The first or second multiplicands of such a register.
template <class M, class In, class Whole>
MESHRT_INLINE Vector<M> part_of(Whole x, int part) {
  if constexpr (std::is_same_v<M, In>) return x;
  else if constexpr (std::is_same_v<In, Bfloat16>) return (Vector<M>)(part == 0 ? x << 16 : x & 0xffff0000);
  else return widened<In>(__builtin_convertvector(part == 0 ? x : x >> 16, Halves));
}

// One of them, which may lie among elements of another type.
template <class M, class In>
MESHRT_INLINE M read_as(const In* from) {
#if defined(MESHRT_NEON)
  // Copied, a number would come by way of a general register.
  if constexpr (std::is_same_v<M, In>) return *reinterpret_cast<const typename Register<M>::Lone*>(from);
#endif
  In value;
  __builtin_memcpy(&value, from, sizeof value);
  return static_cast<M>(value);
}

// Rows of b that one multiplicand takes, where b lies as it is given; one where it lies as multiplicands.
template <class M, class In>
inline constexpr int rows_of_step = std::is_same_v<M, In> ? 1 : depth<M>;

// V registers of multiplicands that are neighbours, from where b lies, whose rows lie b_row apart.
template <class M, int V, class In>
MESHRT_INLINE void load_step(const In* b, [[maybe_unused]] int64_t b_row, Vector<M> (&step)[V]) {
  constexpr int n = lanes<M>;
  if constexpr (rows_of_step<M, In> == 1) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) step[v] = load_as<M>(b + v * n);
  } else {
    static_assert(V % 2 == 0, "a register has the elements of one row for two registers of pairs");
#pragma GCC unroll 4
    for (int v = 0; v < V; v += 2) {
      const uint16_t *first = &b[v * n].bits, *second = &b[v * n + b_row].bits;
      interleave(load(first), load(second), step[v], step[v + 1], std::make_index_sequence<2 * n>());
    }
  }
}

// to [steps_of(inner), to_row] = the multiplicands of `count` columns, each of `inner` neighbours, `apart` elements
// from one to the next; and zeros up to the next multiple of `lanes` columns.
template <class M, class In>
inline void turn(const In* from, int64_t apart, int64_t count, int64_t inner, M* to, int64_t to_row) {
  if constexpr (depth<M> == 1) {
    transpose(
        from, apart, count, inner, to, to_row, [](const In* p) { return load_as<M>(p); },
        [](const In* p) { return static_cast<M>(*p); });
  } else if (apart % depth<M> == 0 && inner % depth<M> == 0) {
    transpose(
        reinterpret_cast<const M*>(from), apart / depth<M>, count, inner / depth<M>, to, to_row,
        [](const M* p) { return load(p); }, [](const M* p) { return read_as<M>(p); });
  } else {
    for (int64_t k = 0; k < inner; k += depth<M>)
      for (int64_t c = 0; c < round_up(count, lanes<M>); ++c)
        to[k / depth<M> * to_row + c] = c < count ? multiplicand<M>(from + c * apart + k, 1, inner - k) : M(0);
  }
}

}  // namespace meshrt::MESHRT_ISA
