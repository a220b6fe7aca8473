// attention_operands.h: one head's operands in the forms that the register tile reads (multiplicand.h), and the memory
// for them. T is what is added up in, In what q, k, v and d_out are; M, a multiplicand of both, is as large as T.
#pragma once
#include "multiplicand.h"
#include "scratch.h"
#include "scratch_places.h"
#include "tile.h"

namespace meshrt::MESHRT_ISA {

// What operands of attention become: all of them are In, and are added up in T.
template <class T, class In>
using Attended = Multiplicand<T, In, In>;

// One head of one sequence: row i at at + i * row, unit stride within.
template <class T>
struct Head {
  T* at;
  int64_t row;

  MESHRT_INLINE Head from_row(int64_t i) const { return {at + i * row, row}; }
};

// The transpose of from [rows, cols] in panels: [panel][steps of cols][cols_of_tile], column c of row r in panel
// r / cols_of_tile; zeros after the last row.
template <class T, class In, class M>
inline void transpose_to_panels(Head<const In> from, int64_t rows, int64_t cols, M* to) {
  constexpr int width = cols_of_tile<T>;
  const int64_t steps = steps_of<M>(cols);
  for (int64_t r = 0; r < rows; r += width, to += steps * width) {
    const int64_t here = smaller(width, rows - r);
    if (here < width)
      for (int64_t i = 0; i < steps * width; ++i) to[i] = 0;
    turn(from.from_row(r).at, from.row, here, cols, to, int64_t(width));
  }
}

// from [rows, cols] as a right operand of a product over the rows, which a tile can read whole: itself, or in `copy`
// [steps of rows, cols up to a multiple of tile_cols], with zeros beyond it.
template <class T, class In, class M>
inline Head<const M> right_rows(Head<const In> from, int64_t rows, int64_t cols, M* copy) {
  constexpr int width = tile_cols<T>;
  const int64_t row = round_up(cols, width), whole = cols / width * width;
  if constexpr (std::is_same_v<M, In>)
    if (row == cols) return from;
  for (int64_t r = 0; r < rows; r += depth<M>) {
    const In* const at = from.from_row(r).at;
    M* const to = copy + r / depth<M> * row;
    for (int64_t c = 0; c < whole; c += width) multiplicands<width>(at + c, from.row, rows - r, to + c);
    for (int64_t c = whole; c < row; ++c) to[c] = c < cols ? multiplicand<M>(at + c, from.row, rows - r) : M(0);
  }
  return {copy, row};
}

// from [rows, cols] as a left operand of a product over the columns: where it lies, or in `copy` [rows, steps of cols].
template <class T, class In, class M>
inline Left<M> left_rows(Head<const In> from, int64_t rows, int64_t cols, M* copy) {
  if constexpr (std::is_same_v<M, In>) return {from.at, from.row, 1};
  if constexpr (depth < M >> 1)
    if (from.row % depth<M> == 0 && cols % depth<M> == 0)
      return {reinterpret_cast<const M*>(from.at), from.row / depth<M>, 1};
  const int64_t steps = steps_of<M>(cols);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; c += depth<M>)
      copy[r * steps + c / depth<M>] = multiplicand<M>(from.from_row(r).at + c, 1, cols - c);
  return {copy, steps, 1};
}

// A tile of `rows` and of `cols` columns, up to the next multiple of tile_cols; gives how many these were.
template <class T, class M>
inline int64_t multiply_tile(int64_t rows, int64_t cols, int64_t steps, const Left<M>& a, const M* b, int64_t b_row,
                             T* c, int64_t c_row, bool accumulate) {
  if (cols > tile_cols<T>) {
    tile_of<T, rows_of_tile, vectors_of_tile>(rows, steps, a, b, b_row, c, c_row, accumulate);
    return cols_of_tile<T>;
  }
  tile_of<T, rows_of_tile, tile_vectors>(rows, steps, a, b, b_row, c, c_row, accumulate);
  return tile_cols<T>;
}

// c [rows, cols] = a · b or more by it, for cols a multiple of tile_cols.
template <class T, class M>
inline void multiply_tiles(int64_t rows, int64_t cols, int64_t steps, const Left<M>& a, const M* b, int64_t b_row, T* c,
                           int64_t c_row, bool accumulate) {
  for (int64_t d = 0; d < cols;) d += multiply_tile(rows, cols - d, steps, a, b + d, b_row, c + d, c_row, accumulate);
}

// Scores of `rows` queries from q against keys in panels of so many steps, for keys [begin, end), `begin` a multiple of
// cols_of_tile: to [rows, to_row], key j at column j.
template <class T, class M>
inline void score_tiles(int64_t rows, int64_t steps, const Left<M>& q, const M* panels, int64_t begin, int64_t end,
                        T* to, int64_t to_row) {
  for (int64_t j = begin; j < end; j += cols_of_tile<T>)
    multiply_tile(rows, end - j, steps, q, panels + j * steps, int64_t(cols_of_tile<T>), to + j, to_row, false);
}

// A row of numbers becomes, in its own memory, what a product along it reads. [from, past) are multiples of tile_cols.
template <class In, class T>
inline void row_to_multiplicands(T* row, [[maybe_unused]] int64_t from, [[maybe_unused]] int64_t past) {
  if constexpr (depth < Attended < T, In >>> 1) {
    constexpr int n = lanes<T>;
    auto* const to = reinterpret_cast<uint32_t*>(row);
    for (int64_t j = from; j < past; j += 2 * n) store(to + j / 2, pairs_along(load(row + j), load(row + j + n)));
  } else if constexpr (!std::is_same_v<T, In>) {
    for (int64_t j = from; j < past; ++j) row[j] = static_cast<T>(In(row[j]));
  }
}

// to = what a product over the rows reads of two of them, for columns [from, past), multiples of tile_cols.
template <class T, class M>
inline void rows_to_multiplicands(const T* first, const T* second, int64_t from, int64_t past, M* to) {
  for (int64_t j = from; j < past; j += lanes<T>) store(to + j, pairs_of(load(first + j), load(second + j)));
}

// The thread's memory for attention, cut into pieces of whole cache lines, of numbers as large as T.
template <class T>
class AttentionMemory {
 public:
  explicit AttentionMemory(int64_t elements)
      : next_(static_cast<T*>(Scratch::mine().bytes(attention_scratch, static_cast<size_t>(elements) * sizeof(T)))) {}
  static constexpr int64_t size(int64_t elements) { return (elements + line - 1) / line * line; }
  template <class M>
  void take(M*& piece, int64_t elements) {
    static_assert(sizeof(M) == sizeof(T));
    piece = reinterpret_cast<M*>(next_);
    next_ += size(elements);
  }

 private:
  static constexpr int64_t line = 64 / sizeof(T);
  T* next_;
};

}  // namespace meshrt::MESHRT_ISA
