// blocking.h: how much of a product's operands is multiplied at a time, so that it stays in the caches.
#pragma once
#include "large_cache.h"
#include "left_operand.h"
#include "meshrt/gemm.h"
#include "tile.h"

namespace meshrt::MESHRT_ISA {

// Of small vectors more, so that `a` passes by as seldom; and of multiplicands that hold two numbers, as then a step
// takes two, and `a` passes by in half the time.
template <class M>
inline constexpr int group_panels = (vector_bytes == 16 || depth<M> > 1 ? 16 : 8) / vectors_of_tile;
inline constexpr int usual_steps = 512;
inline constexpr int64_t far_bytes = int64_t(16) << 20;  // of c, of which no cache has much when it is next passed over

inline constexpr int sum_lanes = 16;  // in which the sums of b's columns are added up

// How much of b is multiplied at a time: `chunk` rows, whose products are added up before the tiles of c are stored and
// the next ones begin, and `group` columns.
struct Blocking {
  int64_t chunk, group;
};

// Where the second-level cache is large it has twice as much of b: more rows, for c passes by less often, or where b
// has no more, more columns, for `a` does, unless a copy of it takes the room. Of c that comes from memory and goes
// there each time, of logits over a large vocabulary, there are more rows everywhere. Pairs have large groups already.
template <class M, class T, class A, class B>
inline Blocking blocking_of(const Product<T, A, B>& p) {
  constexpr int64_t width = group_panels<M> * cols_of_tile<T>;
  const bool large = vector_bytes == 64 && depth<M> == 1 && large_second_level_cache();
  const bool far = p.rows * p.cols * int64_t(sizeof(T)) > far_bytes;
  const int64_t max_inner = (large || far ? 2 : 1) * usual_steps * depth<M>;
  const int64_t chunks = larger(1, (p.inner + max_inner - 1) / max_inner);
  const int64_t chunk = larger(1, round_up((p.inner + chunks - 1) / chunks, sum_lanes));
  return {chunk, large && chunk <= usual_steps && left_in_place<M>(p).at ? 2 * width : width};
}

// How many bytes of rows of `a` are copied at a time, where they are. Each time b is copied too: where it is small this
// costs little, and of many rows fewer at a time stay in the second-level cache.
template <class M, class T, class A, class B>
inline int64_t left_bytes(const Product<T, A, B>& p) {
  constexpr int64_t some = int64_t(600) << 10, usual = int64_t(2) << 20;
  const int64_t line = p.inner * int64_t(sizeof(M));
  return p.cols * line <= usual / 2 && p.rows * line > usual ? some : usual;
}

}  // namespace meshrt::MESHRT_ISA
