// lanes.h: reductions whose order, and so whose bits, are the same in emitted loops, in kernels and in the interpreter,
// on every instruction set: element i of the innermost reduced extent goes to lane i mod 16, outer extents follow one
// another, at the end the lanes are combined pairwise (l with l + 8, then + 4, + 2, + 1).
//
//   const float total = sum_of<float>(n, [&](int64_t i) { return x[i] * y[i]; });
//   Lanes<float> total;                                    // over two extents, or several reductions in one pass
//   for (int64_t r = 0; r < rows; ++r) total.add(cols, [&](int64_t c) { return x[r * cols + c]; });
//   use(total.combine());
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "meshrt/math.h"
#include "meshrt/types.h"

namespace meshrt {

inline constexpr int lane_count = 16;

namespace detail {

// The registers of the target; wider vectors would be taken to pieces through memory.
#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

template <class T, Reduce reduce>
MESHRT_INLINE constexpr T identity() {
  if constexpr (reduce == Reduce::sum) return T(0);
  using Limits = std::numeric_limits<T>;
  if constexpr (reduce == Reduce::max) return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  if constexpr (reduce == Reduce::min) return Limits::has_infinity ? Limits::infinity() : Limits::max();
}

template <Reduce reduce, class T>
MESHRT_INLINE T join(T a, T b) {
  if constexpr (reduce == Reduce::sum) return a + b;
  if constexpr (reduce == Reduce::max) return maximum(a, b);
  if constexpr (reduce == Reduce::min) return minimum(a, b);
}

/// The same of vectors, element by element.
template <Reduce reduce, class V>
MESHRT_INLINE V join_vectors(V a, V b) {
  if constexpr (reduce == Reduce::sum) return a + b;
  if constexpr (reduce == Reduce::max) return a < b ? b : a;
  if constexpr (reduce == Reduce::min) return b < a ? b : a;
}

/// x[0 .. count), of which the second half joins the first, until one is left. As vectors: one by one they would go
/// through memory in each round.
template <Reduce reduce, int count, class T>
MESHRT_INLINE T combine(const T* x) {
  if constexpr (count == 1) {
    return *x;
  } else {
    constexpr int half = count / 2, width = std::min(half, vector_bytes / static_cast<int>(sizeof(T)));
    typedef T Vector __attribute__((vector_size(width * sizeof(T)), aligned(sizeof(T)), may_alias));
    alignas(64) T joined[half];
#pragma GCC unroll 16
    for (int i = 0; i < half; i += width)
      *reinterpret_cast<Vector*>(joined + i) =
          join_vectors<reduce>(*reinterpret_cast<const Vector*>(x + i), *reinterpret_cast<const Vector*>(x + half + i));
    return combine<reduce, half>(joined);
  }
}

}  // namespace detail

/// Sixteen partial results of one reduction. A NaN never wins a max or min.
template <class T, Reduce reduce = Reduce::sum>
struct Lanes {
  T lane[lane_count];

  MESHRT_INLINE Lanes() {
    for (T& l : lane) l = detail::identity<T, reduce>();
  }

  /// Takes f(0) .. f(n - 1), f: int64_t -> T, into lanes 0, 1, ... 15, 0, ...
  template <class F>
  MESHRT_INLINE void add(int64_t n, const F& f) {
    constexpr int vector_bytes = std::min(detail::vector_bytes, lane_count * static_cast<int>(sizeof(T)));
    typedef T Vector __attribute__((vector_size(vector_bytes), aligned(sizeof(T)), may_alias));
    constexpr int width = vector_bytes / sizeof(T), parts = lane_count / width;
    const int64_t whole = n / lane_count * lane_count;
    Vector all[parts];
#pragma GCC unroll 16
    for (int p = 0; p < parts; ++p) all[p] = *reinterpret_cast<const Vector*>(lane + p * width);
    for (int64_t i = 0; i < whole; i += lane_count) {
      alignas(64) T values[lane_count];
#pragma GCC unroll 1
      for (int l = 0; l < lane_count; ++l) values[l] = f(i + l);
#pragma GCC unroll 16
      for (int p = 0; p < parts; ++p) {
        const Vector next = *reinterpret_cast<const Vector*>(values + p * width);
        all[p] = detail::join_vectors<reduce>(all[p], next);
      }
    }
#pragma GCC unroll 16
    for (int p = 0; p < parts; ++p) *reinterpret_cast<Vector*>(lane + p * width) = all[p];
    for (int64_t i = whole; i < n; ++i) lane[i - whole] = detail::join<reduce>(lane[i - whole], T(f(i)));
  }

  /// Takes one value, the `index`-th of the innermost extent.
  MESHRT_INLINE void add_one(int64_t index, T value) {
    T& l = lane[index % lane_count];
    l = detail::join<reduce>(l, value);
  }

  /// Takes what other lanes have taken, after its own.
  MESHRT_INLINE void join(const T (&others)[lane_count]) {
    for (int l = 0; l < lane_count; ++l) lane[l] = detail::join<reduce>(lane[l], others[l]);
  }

  /// All lanes as one value: neighbours eight apart first, then four, two, one.
  MESHRT_INLINE T combine() const { return detail::combine<reduce, lane_count>(lane); }
};

/// Takes n values that lie in memory, the first of which is the `first_index`-th of the innermost extent: for whoever
/// has values in chunks. The same bits as Lanes::add on all of them.
template <Reduce reduce = Reduce::sum, class T>
MESHRT_INLINE void accumulate(T (&lanes)[lane_count], const T* values, int64_t n, int64_t first_index) {
  for (int64_t i = 0; i < n; ++i) {
    T& l = lanes[(first_index + i) % lane_count];
    l = detail::join<reduce>(l, values[i]);
  }
}

/// f(0) + ... + f(n - 1); 0 for none.
template <class T, class F>
MESHRT_INLINE T sum_of(int64_t n, const F& f) {
  Lanes<T, Reduce::sum> lanes;
  lanes.add(n, f);
  return lanes.combine();
}
/// The largest f(i); -inf for none.
template <class T, class F>
MESHRT_INLINE T max_of(int64_t n, const F& f) {
  Lanes<T, Reduce::max> lanes;
  lanes.add(n, f);
  return lanes.combine();
}
/// The smallest f(i); +inf for none.
template <class T, class F>
MESHRT_INLINE T min_of(int64_t n, const F& f) {
  Lanes<T, Reduce::min> lanes;
  lanes.add(n, f);
  return lanes.combine();
}

/// Where the largest f(i) lies: the smallest i of several, 0 for none. Lane l keeps the best of the i with i mod 16 =
/// l.
template <class T, class F>
MESHRT_INLINE int64_t argmax_of(int64_t n, const F& f) {
  T best[lane_count];
  int64_t where[lane_count];
  for (int l = 0; l < lane_count; ++l) best[l] = detail::identity<T, Reduce::max>(), where[l] = l;
  const int64_t whole = n / lane_count * lane_count;
  const auto take = [&](int64_t i, int l) __attribute__((always_inline)) {
    const T value = f(i);
    const bool better = value > best[l];
    best[l] = better ? value : best[l];
    where[l] = better ? i : where[l];
  };
  for (int64_t i = 0; i < whole; i += lane_count)
#pragma GCC unroll 1
    for (int l = 0; l < lane_count; ++l) take(i + l, l);
  for (int64_t i = whole; i < n; ++i) take(i, static_cast<int>(i - whole));
  for (int step = lane_count / 2; step > 0; step /= 2)
    for (int l = 0; l < step; ++l) {
      const T other = best[l + step];
      const bool better = other > best[l] || (other == best[l] && where[l + step] < where[l]);
      best[l] = better ? other : best[l];
      where[l] = better ? where[l + step] : where[l];
    }
  return where[0];
}

/// Reductions over rows, one a column: to(c, the reduction of f(0, c) .. f(rows - 1, c)). Row r counts as element r of
/// the reduced extent, so the bits are those of sum_of along a column, but memory is read along its rows.
template <class T, Reduce reduce = Reduce::sum, class F, class To>
MESHRT_INLINE void reduce_rows(int64_t rows, int64_t cols, const F& f, const To& to) {
  constexpr int width = 16;
  for (int64_t first = 0; first < cols; first += width) {
    const int64_t here = cols - first < width ? cols - first : width;
    alignas(64) T lane[lane_count][width];
    for (auto& l : lane)
      for (T& x : l) x = detail::identity<T, reduce>();
    for (int64_t r = 0; r < rows; ++r) {
      T* l = lane[r % lane_count];
      for (int64_t c = 0; c < here; ++c) l[c] = detail::join<reduce>(l[c], T(f(r, first + c)));
    }
    for (int step = lane_count / 2; step > 0; step /= 2)
      for (int l = 0; l < step; ++l)
        for (int c = 0; c < width; ++c) lane[l][c] = detail::join<reduce>(lane[l][c], lane[l + step][c]);
    for (int64_t c = 0; c < here; ++c) to(first + c, lane[0][c]);
  }
}

}  // namespace meshrt
