// simd.h: the registers of the instruction set that this translation unit is compiled for, as compiler vectors. The
// files *_kernel.cpp and attention_*ward.cpp are compiled once a set, in a namespace called after it (MESHRT_ISA),
// with nothing from the standard library inside: an inline function shared with other objects could carry the wrong set
// there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
#include <immintrin.h>
#elif defined(MESHRT_NEON)
#include <arm_neon.h>
#endif

#include "meshrt/math.h"

namespace meshrt::MESHRT_ISA {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64, tile_rows = 8, tile_vectors = 2;  // 16 of 32 registers accumulate
#elif defined(__AVX2__) && defined(__FMA__)
inline constexpr int vector_bytes = 32, tile_rows = 6, tile_vectors = 2;  // 12 of 16
#elif defined(MESHRT_NEON)
inline constexpr int vector_bytes = 16, tile_rows = 6, tile_vectors = 4;  // 24 of 32
#else
inline constexpr int vector_bytes = 16, tile_rows = 4, tile_vectors = 2;
#endif

template <class T>
struct Register {
  typedef T Vector __attribute__((vector_size(vector_bytes)));
  typedef T Loose __attribute__((vector_size(vector_bytes), aligned(sizeof(T)), may_alias));  // at any address
  typedef T Lone __attribute__((may_alias));
  static constexpr int lanes = vector_bytes / sizeof(T);
};
template <class T>
using Vector = typename Register<T>::Vector;
template <class T>
inline constexpr int lanes = Register<T>::lanes;

template <class T>
MESHRT_INLINE Vector<T> load(const T* p) {
  return *reinterpret_cast<const typename Register<T>::Loose*>(p);
}
template <class T>
MESHRT_INLINE void store(T* p, Vector<T> v) {
  *reinterpret_cast<typename Register<T>::Loose*>(p) = v;
}
template <class T>
MESHRT_INLINE Vector<T> splat(T x) {
#if defined(MESHRT_NEON)
  // In a register, one lane of which fmla takes: to fill all lanes as it is loaded takes a turn of what multiplies.
  asm("" : "+w"(x));
#endif
  return x - Vector<T>{};
}

#if defined(__AVX512F__)
MESHRT_INLINE Vector<float> fma(Vector<float> a, Vector<float> b, Vector<float> c) { return _mm512_fmadd_ps(a, b, c); }
MESHRT_INLINE Vector<double> fma(Vector<double> a, Vector<double> b, Vector<double> c) {
  return _mm512_fmadd_pd(a, b, c);
}
#if defined(__AVX512BF16__)
// sum + a · b of both elements of each pair of bf16.
MESHRT_INLINE Vector<float> fma(Vector<uint32_t> a, Vector<uint32_t> b, Vector<float> sum) {
  return _mm512_dpbf16_ps(sum, (__m512bh)b, (__m512bh)a);
}
// The elements of a, then those of b, rounded to bf16: neighbours are a pair.
MESHRT_INLINE Vector<uint32_t> pairs_along(Vector<float> a, Vector<float> b) {
  return (Vector<uint32_t>)_mm512_cvtne2ps_pbh(b, a);
}
// Each element of a with that of b at its place, rounded to bf16.
template <size_t... l>
MESHRT_INLINE Vector<uint32_t> pairs_of(Vector<float> a, Vector<float> b, std::index_sequence<l...>) {
  const auto halves = (Vector<uint16_t>)pairs_along(a, b);
  return (Vector<uint32_t>)__builtin_shufflevector(halves, halves, int(l % 2 * lanes<float> + l / 2)...);
}
MESHRT_INLINE Vector<uint32_t> pairs_of(Vector<float> a, Vector<float> b) {
  return pairs_of(a, b, std::make_index_sequence<lanes<uint16_t>>());
}
#endif
#elif defined(__AVX2__) && defined(__FMA__)
MESHRT_INLINE Vector<float> fma(Vector<float> a, Vector<float> b, Vector<float> c) { return _mm256_fmadd_ps(a, b, c); }
MESHRT_INLINE Vector<double> fma(Vector<double> a, Vector<double> b, Vector<double> c) {
  return _mm256_fmadd_pd(a, b, c);
}
#elif defined(MESHRT_NEON)
MESHRT_INLINE Vector<float> fma(Vector<float> a, Vector<float> b, Vector<float> c) {
  return (Vector<float>)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
MESHRT_INLINE Vector<double> fma(Vector<double> a, Vector<double> b, Vector<double> c) {
  return (Vector<double>)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
#else
template <class V>
MESHRT_INLINE V fma(V a, V b, V c) {
  for (unsigned i = 0; i < sizeof(V) / sizeof(a[0]); ++i) c[i] = detail::fma(a[i], b[i], c[i]);
  return c;
}
#endif

// In rows i and i + half, the right half of every block of 2 half columns of the first changes places with the left
// half of the second.
template <int half, class V, size_t... l>
MESHRT_INLINE void exchange(V& first, V& second, std::index_sequence<l...>) {
  constexpr int n = sizeof...(l);
  const V a = first, b = second;
  first = __builtin_shufflevector(a, b, (int(l) & half ? n + int(l) - half : int(l))...);
  second = __builtin_shufflevector(a, b, (int(l) & half ? n + int(l) : int(l) + half)...);
}

// The elements of two registers by turns, a0 b0 a1 b1 .., in two of the same size.
template <class Narrow, class Wide, size_t... l>
MESHRT_INLINE void interleave(Narrow a, Narrow b, Wide& first, Wide& second, std::index_sequence<l...>) {
  constexpr int n = sizeof...(l);
  first = (Wide)__builtin_shufflevector(a, b, (int(l) % 2 * n + int(l) / 2)...);
  second = (Wide)__builtin_shufflevector(a, b, (int(l) % 2 * n + n / 2 + int(l) / 2)...);
}

// Elements `first`, first + 2, .. of two registers side by side.
template <int first, class V, size_t... l>
MESHRT_INLINE V every_second(V a, V b, std::index_sequence<l...>) {
  return __builtin_shufflevector(a, b, (first + 2 * int(l))...);
}

// The transpose of a block of n rows of n, by halves of ever smaller blocks.
template <int half, class V, int n>
MESHRT_INLINE void transpose_registers(V (&x)[n]) {
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i)
    if (!(i & half)) exchange<half>(x[i], x[i + half], std::make_index_sequence<n>());
  if constexpr (half > 1) transpose_registers<half / 2>(x);
}

// to [lanes, to_row] = the transpose of from [lanes, from_row], of which only `rows` rows exist, the others counting as
// zeros. read(p): the register of elements from p on.
template <class T, class In, class Read>
MESHRT_INLINE void transpose_block(const In* from, int64_t from_row, int64_t rows, T* to, int64_t to_row, Read read) {
  constexpr int n = lanes<T>;
  Vector<T> x[n];
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) x[i] = i < rows ? read(from + i * from_row) : Vector<T>{};
  transpose_registers<n / 2>(x);
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) store(to + i * to_row, x[i]);
}

// to [cols, to_row] = the transpose of from [rows, from_row], any extents, and zeros up to the next multiple of `lanes`
// rows: to_row must leave room for them. one(p): the element at p.
template <class T, class In, class Read, class One>
inline void transpose(const In* from, int64_t from_row, int64_t rows, int64_t cols, T* to, int64_t to_row, Read read,
                      One one) {
  constexpr int n = lanes<T>;
  const int64_t whole_rows = rows / n * n, whole_cols = cols / n * n;
  for (int64_t r = 0; r < whole_rows; r += n)
    for (int64_t c = 0; c < whole_cols; c += n)
      transpose_block(from + r * from_row + c, from_row, n, to + c * to_row + r, to_row, read);
  if (whole_rows < rows)
    for (int64_t c = 0; c < whole_cols; c += n)
      transpose_block(from + whole_rows * from_row + c, from_row, rows - whole_rows, to + c * to_row + whole_rows,
                      to_row, read);
  for (int64_t c = whole_cols; c < cols; ++c)
    for (int64_t r = 0; r < (rows + n - 1) / n * n; ++r)
      to[c * to_row + r] = r < rows ? one(from + r * from_row + c) : T(0);
}

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace meshrt::MESHRT_ISA
