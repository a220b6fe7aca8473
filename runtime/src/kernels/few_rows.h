// few_rows.h: products of few rows, as when a text is written position by position. They compute next to nothing beside
// reading `b` once, so it is read where it lies, in long pieces, and what comes next is fetched meanwhile; b of bf16 or
// f16 becomes multiplicands in registers. Sums are the chains of gemm.h. As soon as a tile has all its rows, to pack b
// as the first tile reads it pays: of 16 rows in half the time.
#pragma once
#include "epilogue.h"
#include "meshrt/gemm.h"
#include "meshrt/poll.h"
#include "multiplicand.h"
#include "scratch.h"
#include "scratch_places.h"
#include "tile.h"

namespace meshrt::MESHRT_ISA {

template <class T>
inline T* scratch(ScratchPlace place, int64_t count) {
  return static_cast<T*>(Scratch::mine().bytes(place, static_cast<size_t>(count) * sizeof(T)));
}

// The left operand of few rows as multiplicands: where it lies if it is made of them, else a copy.
template <class M, class T, class A, class B>
Left<M> left_of_few_rows(const Product<T, A, B>& p) {
  if constexpr (std::is_same_v<M, A>) {
    return {p.a, p.a_row, p.a_col};
  } else {
    const int64_t steps = steps_of<M>(p.inner);
    M* copy = scratch<M>(left_scratch, p.rows * steps);
    for (int64_t i = 0; i < p.rows; ++i)
      for (int64_t k = 0; k < steps; ++k) {
        const int64_t x = k * depth<M>;
        copy[i * steps + k] = multiplicand<M>(p.a + i * p.a_row + x * p.a_col, p.a_col, p.inner - x);
      }
    return {copy, steps, 1};
  }
}

// A stretch of the rows of b and of their columns, which fits into the second-level cache beside the next one.
struct Piece {
  int64_t k, inner, j, cols;
  static constexpr int64_t bytes = int64_t(64) << 10, least_rows = 16, most_rows = 256;
};

// The pieces of a product in the order in which they are multiplied: all rows of a band of columns, then the next band.
template <class T, class B>
class Pieces {
 public:
  Pieces(int64_t inner, int64_t cols) : inner_(inner), cols_(cols) {
    constexpr int64_t widest = Piece::bytes / (Piece::least_rows * int64_t(sizeof(B)));
    const int64_t bands = (cols + widest - 1) / widest;
    width_ = round_up((cols + bands - 1) / bands, tile_cols<T>);
    rows_ = larger(Piece::least_rows, Piece::bytes / (width_ * int64_t(sizeof(B))));
    rows_ = smaller(rows_ / 2 * 2, Piece::most_rows);  // whole pairs
  }
  Piece first() const { return {0, smaller(rows_, inner_), 0, smaller(width_, cols_)}; }
  // Behind the last one: no columns.
  Piece after(const Piece& piece) const {
    const bool same_band = piece.k + piece.inner < inner_;
    const int64_t k = same_band ? piece.k + piece.inner : 0, j = same_band ? piece.j : piece.j + piece.cols;
    return {k, smaller(rows_, inner_ - k), j, smaller(width_, cols_ - j)};
  }

 private:
  int64_t inner_, cols_, width_, rows_;
};

// One strip of V registers of columns of a piece, for all rows of the product; what lies `ahead` of it is fetched.
template <class T, int R, int V, class A, class B, class M>
MESHRT_INLINE void multiply_strip(const Product<T, A, B>& p, const Left<M>& left, const Piece& piece, int64_t j,
                                  int64_t ahead) {
  const bool accumulate = piece.k > 0 || p.accumulate;
  const int64_t steps = piece.inner / depth<M>;
  const B* b = p.b + piece.k * p.b_row + j;
  for (int64_t i = 0; i < p.rows; i += R) {
    const Left<M> a = {left.at + i * left.row + piece.k / depth<M> * left.col, left.row, left.col};
    T* c = p.c + i * p.c_row + j;
    const FetchesAhead once{i == 0 ? ahead : 0};
    tile_of<T, R, V>(smaller(R, p.rows - i), steps, a, b, p.b_row, c, p.c_row, accumulate, nullptr, once);
  }
}

// For a b whose rows lie in one piece each. R rows by V registers of columns are summed up at a time. Gives the first
// column that is left to do.
template <class T, int R, int V, class A, class B, class M>
int64_t multiply_along_rows(const Product<T, A, B>& p, const Left<M>& left) {
  constexpr int64_t wide = V * lanes<T>, narrow = tile_cols<T>;
  const int64_t cols = p.cols / narrow * narrow;
  const Pieces<T, B> pieces(p.inner, cols);
  for (Piece piece = pieces.first(), next; piece.cols > 0; piece = next) {
    poll();
    next = pieces.after(piece);
    const int64_t ahead = next.cols > 0 ? (next.k - piece.k) * p.b_row + next.j - piece.j : 0;
    const int64_t end = piece.j + piece.cols;
    int64_t j = piece.j;
    for (; j + wide <= end; j += wide) multiply_strip<T, R, V>(p, left, piece, j, ahead);
    for (; j < end; j += narrow) multiply_strip<T, tile_rows, tile_vectors>(p, left, piece, j, ahead);
    if (piece.k + piece.inner == p.inner && !is_plain(p.epilogue))
      epilogue_tile(p.epilogue, p.c, p.c_row, 0, piece.j, p.rows, piece.cols);
  }
  return cols;
}

// c [cols] += a [R] · b [R multiplicands, cols]: so many rows of b side by side, each from one end to the other, as
// memory is read fastest. What lies `ahead` of each is fetched. `cols` fill whole registers.
template <class T, int R, class B, class M>
MESHRT_INLINE void add_rows(const M* a, int64_t a_col, const B* b, int64_t b_row, T* c, int64_t cols, int64_t ahead) {
  constexpr int V = rows_of_step<M, B>, n = lanes<T>;
  Vector<M> x[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) x[r] = splat(a[r * a_col]);
  for (int64_t j = 0; j < cols; j += V * n) {
    Vector<T> sum[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sum[v] = load(c + j + v * n);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const B* from = b + r * V * b_row + j;
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) __builtin_prefetch(from + v * b_row + ahead);
      Vector<M> step[V];
      load_step<M>(from, b_row, step);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[v] = fma(x[r], step[v], sum[v]);
    }
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) store(c + j + v * n, sum[v]);
  }
}

// A product of one row with a b whose rows lie in one piece each, a band of columns after the other: the sums of a band
// stay in the first-level cache. Gives the first column that is left to do.
template <class T, class A, class B, class M>
int64_t multiply_one_row(const Product<T, A, B>& p, const Left<M>& left) {
  constexpr int64_t high = rows_of_step<M, B>, together = 8, rows = together * high;
  constexpr int64_t band = (int64_t(16) << 10) / int64_t(sizeof(T)), width_of_step = high * lanes<T>;
  const int64_t cols = p.cols / width_of_step * width_of_step;
  for (int64_t j = 0; j < cols; j += band) {
    const int64_t width = smaller(band, cols - j);
    T* c = p.c + j;
    for (int64_t x = 0; x < (p.accumulate ? 0 : width); ++x) c[x] = 0;
    const M* a = left.at;
    const B* b = p.b + j;
    int64_t k = 0;
    for (; k + rows <= p.inner; k += rows, a += together * left.col, b += rows * p.b_row) {
      poll();
      const int64_t ahead = k + 2 * rows <= p.inner ? rows * p.b_row : 0;
      add_rows<T, together>(a, left.col, b, p.b_row, c, width, ahead);
    }
    for (; k < p.inner; k += high, a += left.col, b += high * p.b_row)
      add_rows<T, 1>(a, left.col, b, p.b_row, c, width, 0);
    if (!is_plain(p.epilogue)) epilogue_tile(p.epilogue, p.c, p.c_row, 0, j, 1, width);
  }
  return cols;
}

// c [R, C registers] (+)= a · b for a b whose columns lie in one piece each, b_col apart: squares of it are transposed
// in registers, of numbers of 16 bits that are widened pairs, which is half the work. `next`: where the columns lie
// that come then, which are fetched.
template <class T, int R, int C, class B, class M>
[[gnu::noinline]] void tile_of_columns(int64_t inner, const Left<M>& a, const B* b, int64_t b_col, const B* next, T* c,
                                       int64_t c_row, bool accumulate) {
  constexpr int n = lanes<T>, parts = parts_of_whole<M, B>;
  Vector<T> sum[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < C; ++v) sum[r][v] = accumulate ? load(c + r * c_row + v * n) : Vector<T>{};
  int64_t k = 0;
  for (; k + parts * n <= inner; k += parts * n)
#pragma GCC unroll 4
    for (int v = 0; v < C; ++v) {
      decltype(load_whole<M>(b)) x[n];
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i) {
        x[i] = load_whole<M>(b + (v * n + i) * b_col + k);
        __builtin_prefetch(next + (v * n + i) * b_col + k, 0, 2);
      }
      transpose_registers<n / 2>(x);
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i)
#pragma GCC unroll 2
        for (int part = 0; part < parts; ++part) {
          const Vector<M> y = part_of<M, B>(x[i], part);
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r)
            sum[r][v] = fma(splat(a.at[r * a.row + (k + parts * i + part) * a.col]), y, sum[r][v]);
        }
    }
  for (; k < inner; ++k)
#pragma GCC unroll 4
    for (int v = 0; v < C; ++v) {
      Vector<M> x;
      for (int i = 0; i < n; ++i) x[i] = read_as<M>(b + (v * n + i) * b_col + k);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sum[r][v] = fma(splat(a.at[r * a.row + k * a.col]), x, sum[r][v]);
    }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < C; ++v) store(c + r * c_row + v * n, sum[r][v]);
}

// The same product for all R rows and all columns but the last few; gives the first column that is left to do. `b`:
// its columns, b_col apart, of `inner` multiplicands or what becomes one each.
template <class T, int R, class A, class B, class M, class In>
int64_t multiply_along_columns(const Product<T, A, B>& p, const Left<M>& left, const In* b, int64_t b_col,
                               int64_t inner) {
  constexpr int squares = R <= 2 ? 2 : 1;  // side by side, so that enough sums are under way
  constexpr int64_t width = squares * lanes<T>;
  int64_t j = 0;
  for (; j + width <= p.cols; j += width, b += width * b_col) {
    poll();
    const In* next = j + 2 * width <= p.cols ? b + width * b_col : b;
    tile_of_columns<T, R, squares>(inner, left, b, b_col, next, p.c + j, p.c_row, p.accumulate);
    if (!is_plain(p.epilogue)) epilogue_tile(p.epilogue, p.c, p.c_row, 0, j, R, width);
  }
  return j;
}

// For a number of rows known only now, 1 .. tile_rows.
template <class T, int R = tile_rows, class A, class B, class M, class In>
int64_t multiply_along_columns_of(const Product<T, A, B>& p, const Left<M>& left, const In* b, int64_t b_col,
                                  int64_t inner) {
  if (p.rows == R) return multiply_along_columns<T, R>(p, left, b, b_col, inner);
  if constexpr (R > 1) return multiply_along_columns_of<T, R - 1>(p, left, b, b_col, inner);
  else return 0;
}

/// Does what columns it can of a product of few rows; gives the first one that is left to do. Where multiplicands are
/// pairs of elements, an odd one at the end of the inner extent is none: such products are left whole.
template <class T, class A, class B>
int64_t multiply_few_rows(const Product<T, A, B>& p) {
  using M = Multiplicand<T, A, B>;
  if (p.rows == 0 || p.inner == 0 || p.inner % depth<M> != 0 || p.cols < tile_cols<T>) return 0;
  if (p.b_col == 1) {
    if (p.rows >= rows_of_tile) return 0;
    const Left<M> left = left_of_few_rows<M>(p);
    if (p.rows == 1) return multiply_one_row(p, left);
    constexpr int sums = tile_rows * tile_vectors, wide = 4;  // registers; wide strips rather than many rows
    return multiply_along_rows<T, sums / wide, wide>(p, left);
  }
  if (p.b_row != 1 || p.rows > tile_rows) return 0;
  if constexpr (depth<M> == 1) {
    return multiply_along_columns_of<T>(p, left_of_few_rows<M>(p), p.b, p.b_col, p.inner);
  } else {
    if (p.b_col % depth<M> != 0) return 0;
    const M* pairs = reinterpret_cast<const M*>(p.b);
    return multiply_along_columns_of<T>(p, left_of_few_rows<M>(p), pairs, p.b_col / depth<M>, p.inner / depth<M>);
  }
}

}  // namespace meshrt::MESHRT_ISA
