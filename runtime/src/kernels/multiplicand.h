// multiplicand.h: the form in which the operands of a product come to the register tile. Those of the sum's own type
// come as they are. bf16 and f16 are widened to f32, or, where the CPU has vdpbf16ps and both operands are bf16, come
// in pairs: elements k and k + 1 of the inner extent as one number of 32 bits, the first in its lower half. f32 that is
// taken as bf16 is rounded first.
#pragma once
#include <type_traits>

#include "meshrt/bfloat16.h"
#include "meshrt/float16.h"
#include "simd.h"

namespace meshrt::MESHRT_ISA {

template <class In>
inline constexpr bool is_bf16 = std::is_same_v<In, Bfloat16> || std::is_same_v<In, AsBfloat16>;

// What elements of A and B become, to be added up in T.
#if defined(__AVX512BF16__)
template <class T, class A, class B>
using Multiplicand = std::conditional_t<is_bf16<A> && is_bf16<B>, uint32_t, T>;
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
  else return static_cast<Bfloat16>(*from).bits | (left > 1 ? M(static_cast<Bfloat16>(from[apart]).bits) << 16 : M(0));
}

// Numbers of f32 rounded to bf16 (Bfloat16), whose bits are the upper halves; what is in the lower ones has no meaning.
MESHRT_INLINE Vector<uint32_t> rounded_bits(Vector<float> x) {
  const auto bits = (Vector<uint32_t>)x;
  const Vector<uint32_t> nearest = bits + 0x7fff + (bits >> 16 & 1);
  return (bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : nearest;
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
  } else if constexpr (std::is_same_v<In, AsBfloat16>) {
    return (Vector<float>)(rounded_bits(load(&from->value)) & 0xffff0000);
  } else {
    Halves bits;
    __builtin_memcpy(&bits, from, sizeof bits);
    return widened<In>(bits);
  }
}

// The bits of as many numbers of bf16, in the upper halves.
MESHRT_INLINE Vector<uint32_t> load_bits(const AsBfloat16* from) { return rounded_bits(load(&from->value)); }
MESHRT_INLINE Vector<uint32_t> load_bits(const Bfloat16* from) {
  Halves bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return __builtin_convertvector(bits, Vector<uint32_t>) << 16;
}
// Numbers of bf16 that are neighbours, from a register that holds theirs.
template <class V>
MESHRT_INLINE void store_bits(Bfloat16* to, V bits) {
  __builtin_memcpy(to, &bits, sizeof bits);
}
// Pairs of such.
MESHRT_INLINE Vector<uint32_t> pair_up(Vector<uint32_t> first, Vector<uint32_t> second) {
  return first >> 16 | (second & 0xffff0000);
}

#if defined(__AVX512BF16__)
// Whether the CPU's instruction rounds as Bfloat16 does: it takes what is too small for a whole mantissa as 0.
MESHRT_INLINE bool rounds_alike(Vector<float> a, Vector<float> b) {
  constexpr int denormal = 0x20;
  return _kortestz_mask16_u8(_mm512_fpclass_ps_mask(a, denormal), _mm512_fpclass_ps_mask(b, denormal)) != 0;
}
// Numbers of f32 rounded to bf16, in pairs: element i of both.
MESHRT_INLINE Vector<uint32_t> rounded_pairs(Vector<float> first, Vector<float> second) {
  if (rounds_alike(first, second)) [[likely]]
    return pairs_of(first, second);
  return pair_up(rounded_bits(first), rounded_bits(second));
}
// In pairs of neighbours: those of a, then those of b.
MESHRT_INLINE Vector<uint32_t> rounded_pairs_along(Vector<float> a, Vector<float> b) {
  if (rounds_alike(a, b)) [[likely]]
    return pairs_along(a, b);
  constexpr auto all = std::make_index_sequence<lanes<float>>();
  const Vector<uint32_t> low = rounded_bits(a), high = rounded_bits(b);
  return pair_up(every_second<0>(low, high, all), every_second<1>(low, high, all));
}
#endif

// to [count] = the multiplicands of `count` neighbours.
template <int count, class M, class In>
MESHRT_INLINE void multiplicands(const In* from, [[maybe_unused]] int64_t apart, [[maybe_unused]] int64_t left, M* to) {
  if constexpr (depth<M> == 1) {
    for (int i = 0; i < count; i += lanes<M>) store(to + i, load_as<M>(from + i));
  } else if constexpr (std::is_same_v<In, AsBfloat16>) {
    for (int i = 0; i < count; i += lanes<M>)
      store(to + i, rounded_pairs(load(&from[i].value), left > 1 ? load(&from[apart + i].value) : Vector<float>{}));
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
  } else if constexpr (std::is_same_v<In, AsBfloat16>) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) step[v] = rounded_pairs(load(&b[v * n].value), load(&b[v * n + b_row].value));
  } else {
    static_assert(V % 2 == 0, "a register has the elements of one row for two registers of pairs");
#pragma GCC unroll 4
    for (int v = 0; v < V; v += 2) {
      const uint16_t *first = &b[v * n].bits, *second = &b[v * n + b_row].bits;
      interleave(load(first), load(second), step[v], step[v + 1], std::make_index_sequence<2 * n>());
    }
  }
}

// Two neighbours in memory.
template <class In>
struct PairOf {
  In first, second;
};

// As many of them as fill a register.
MESHRT_INLINE Vector<uint32_t> load_pairs(const PairOf<Bfloat16>* from) {
  Vector<uint32_t> pairs;
  __builtin_memcpy(&pairs, from, sizeof pairs);
  return pairs;
}
#if defined(__AVX512BF16__)
MESHRT_INLINE Vector<uint32_t> load_pairs(const PairOf<AsBfloat16>* from) {
  return rounded_pairs_along(load(&from->first.value), load(&from[lanes<float> / 2].first.value));
}
#endif

// to [steps_of(inner), to_row] = the multiplicands of `count` columns, each of `inner` neighbours, `apart` elements
// from one to the next; and zeros up to the next multiple of `lanes` columns.
template <class M, class In>
inline void turn(const In* from, int64_t apart, int64_t count, int64_t inner, M* to, int64_t to_row) {
  if constexpr (depth<M> == 1) {
    transpose(
        from, apart, count, inner, to, to_row, [](const In* p) { return load_as<M>(p); },
        [](const In* p) { return static_cast<M>(*p); });
  } else if (apart % depth<M> == 0 && inner % depth<M> == 0) {
    using Pair = PairOf<In>;
    transpose(
        reinterpret_cast<const Pair*>(from), apart / depth<M>, count, inner / depth<M>, to, to_row,
        [](const Pair* p) { return load_pairs(p); }, [](const Pair* p) { return multiplicand<M>(&p->first, 1, 2); });
  } else {
    for (int64_t k = 0; k < inner; k += depth<M>)
      for (int64_t c = 0; c < round_up(count, lanes<M>); ++c)
        to[k / depth<M> * to_row + c] = c < count ? multiplicand<M>(from + c * apart + k, 1, inner - k) : M(0);
  }
}

}  // namespace meshrt::MESHRT_ISA
