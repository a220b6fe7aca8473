// left_operand.h: the left operand of a product, where it lies or copied.
#pragma once
#include "meshrt/gemm.h"
#include "multiplicand.h"
#include "tile.h"

namespace meshrt::MESHRT_ISA {

// Where the left operand lies as the tile takes it; nothing where it must be copied.
template <class M, class T, class A, class B>
inline Left<M> left_in_place(const Product<T, A, B>& p) {
  if constexpr (std::is_same_v<M, A>) {
    if (p.a_col == 1 || p.cols <= 4 * lanes<T>)  // a copy would not pay for so few
      return {p.a, p.a_row, p.a_col};
  } else if constexpr (depth<M> > 1 && std::is_same_v<A, Bfloat16>) {
    if (p.a_col == 1 && p.a_row % depth<M> == 0 && p.inner % depth<M> == 0)
      return {reinterpret_cast<const M*>(p.a), p.a_row / depth<M>, 1};
  }
  return {};
}

// A register of multiplicands of rows that are neighbours, whose columns lie a_col apart.
template <class M, class A>
MESHRT_INLINE Vector<M> load_column(const A* at, [[maybe_unused]] int64_t a_col) {
  if constexpr (depth<M> == 1) {
    return load_as<M>(at);
  } else {
    return pair_up(load_bits(at), load_bits(at + a_col));
  }
}

// Rows begin .. of a, columns k .., as rows of multiplicands: where rows are not contiguous, every k would be on
// another page, and with a large power of two between them all of them in one set of the cache.
template <class T, class A, class B, class M>
inline Left<M> copy_left(const Product<T, A, B>& p, int64_t begin, int64_t end, int64_t k, int64_t inner, M* to) {
  constexpr int n = lanes<M>;
  const int64_t steps = steps_of<M>(inner), next = steps + apart_by<M>, rows = end - begin;
  const A* from = p.a + begin * p.a_row + k * p.a_col;
  const auto one = [&](const A* at, int64_t left) { return multiplicand<M>(at, p.a_col, left); };
  if (p.a_row == 1 && inner % depth<M> == 0) {
    transpose(
        from, depth<M> * p.a_col, steps, rows, to, next,
        [&](const A* at) {
          __builtin_prefetch(at + 4 * n);  // of a line of each row at a time, hardware sees no stream
          return load_column<M>(at, p.a_col);
        },
        [&](const A* at) { return one(at, depth<M>); });
  } else {
    for (int64_t i = 0; i < rows; ++i) {
      const A* const row = from + i * p.a_row;
      int64_t x = 0;
      if constexpr (depth<M> == 1)
        for (; p.a_col == 1 && x + n <= inner; x += n) store(to + i * next + x, load_as<M>(row + x));
      for (; x < inner; x += depth<M>) to[i * next + x / depth<M>] = one(row + x * p.a_col, inner - x);
    }
  }
  return {to, next, 1};
}

}  // namespace meshrt::MESHRT_ISA
