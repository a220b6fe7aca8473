// attention_head.h: what forward and backward of attention share: which keys a query sees, one head's operands copied
// into the forms that the register tile reads, and the memory for them.
#pragma once
#include "meshrt/attention.h"
#include "meshrt/lanes.h"
#include "scratch.h"
#include "scratch_places.h"
#include "tile.h"

namespace meshrt::MESHRT_ISA {

// Keys [begin, end) of this part; both grow with the query.
struct Visible {
  int64_t begin, end;
};
inline Visible visible(const AttentionShape& s, int64_t query) {
  const int64_t position = s.query_at ? s.query_at[query] : s.query_begin + query;
  const int64_t at = position - s.key_begin;  // the query's place among the keys
  const int64_t begin = smaller(larger(0, at - s.most), s.keys);
  return {begin, larger(begin, smaller(s.keys, at - s.least + 1))};
}

// Queries of this part before global position `position`.
inline int64_t queries_before(const AttentionShape& s, int64_t position) {
  if (!s.query_at) return smaller(larger(position - s.query_begin, 0), s.queries);
  int64_t begin = 0, end = s.queries;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (s.query_at[middle] < position) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

// Queries [begin, end) of this part that see at least one of keys [first, last).
inline Visible seeing(const AttentionShape& s, int64_t first, int64_t last) {
  const int64_t begin = queries_before(s, s.key_begin + first + s.least);
  return {begin, larger(begin, queries_before(s, s.key_begin + last + s.most))};
}

// One head of one sequence: row i at at + i * row, unit stride within.
template <class T>
struct Head {
  T* at;
  int64_t row;
};
template <class T>
MESHRT_INLINE Head<T> head_of(T* tensor, const HeadStrides& strides, int64_t batch, int64_t head) {
  return {tensor + batch * strides.batch + head * strides.head, strides.seq};
}

// The transpose of from [rows, cols] in panels: [panel][cols][tile_cols], element (c, r) in panel r / tile_cols; zeros
// after the last row.
template <class T>
inline void transpose_to_panels(Head<const T> from, int64_t rows, int64_t cols, T* to) {
  constexpr int width = tile_cols<T>;
  for (int64_t r = 0; r < rows; r += width, to += cols * width) {
    const int64_t here = smaller(width, rows - r);
    if (here < width)
      for (int64_t i = 0; i < cols * width; ++i) to[i] = 0;
    transpose(from.at + r * from.row, from.row, here, cols, to, int64_t(width));
  }
}

// from [rows, cols] with rows that a tile can read whole: itself, or its copy in `copy` with zeros up to a multiple of
// tile_cols.
template <class T>
inline Head<const T> whole_rows(Head<const T> from, int64_t rows, int64_t cols, T* copy) {
  const int64_t width = round_up(cols, tile_cols<T>);
  if (width == cols) return from;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < width; ++c) copy[r * width + c] = c < cols ? from.at[r * from.row + c] : T(0);
  return {copy, width};
}

// Scores of `rows` queries from q against keys in panels, for keys [begin, end), both multiples of tile_cols:
// to [rows, to_row], key j at column j.
template <class T>
inline void score_tiles(int64_t rows, int64_t head, Head<const T> q, const T* panels, int64_t begin, int64_t end, T* to,
                        int64_t to_row) {
  constexpr int width = tile_cols<T>;
  for (int64_t j = begin; j < end; j += width)
    tile_of(rows, head, Left<T>{q.at, q.row, 1}, panels + j * head, int64_t(width), to + j, to_row, false);
}

// The thread's memory for attention, cut into pieces of whole cache lines.
template <class T>
class Pieces {
 public:
  explicit Pieces(int64_t elements)
      : next_(static_cast<T*>(Scratch::mine().bytes(attention_scratch, static_cast<size_t>(elements) * sizeof(T)))) {}
  static constexpr int64_t size(int64_t elements) { return (elements + line - 1) / line * line; }
  T* take(int64_t elements) {
    T* piece = next_;
    next_ += size(elements);
    return piece;
  }

 private:
  static constexpr int64_t line = 64 / sizeof(T);
  T* next_;
};

}  // namespace meshrt::MESHRT_ISA
