// gemm_kernel.cpp: c = a · b from one register tile. `a` is read in place, element by element (a broadcast costs
// little beside the multiply-adds of its row). Of `b` a group of panels at a time is copied, which stay in the
// second-level cache while every row of `a` passes by: where it lies in rows, by the first tile that reads it. The next
// group is fetched meanwhile. What follows the product is applied to a tile as soon as its sum is whole. Products of
// few rows are those of few_rows.h, but for the last few columns. Operands of bf16 and f16 become multiplicands
// (multiplicand.h) as they are copied. Compiled once an instruction set.
#include "gemm_kernel.h"

#include "blocking.h"
#include "epilogue.h"
#include "few_rows.h"
#include "left_operand.h"
#include "meshrt/poll.h"
#include "right_operand.h"
#include "scratch.h"
#include "scratch_places.h"
#include "tile.h"

namespace meshrt::MESHRT_ISA {
namespace {

// One tile of rows x cols at c, in V registers a row. Where it has fewer columns, it takes a way round.
template <int V, class T, class M>
void store_registers(int64_t steps, const Left<M>& a, const M* b, T* c, int64_t c_row, int64_t rows, int64_t cols,
                     bool accumulate, const Beside<T>* beside) {
  constexpr int R = rows_of_tile, width = V * lanes<T>;
  constexpr int64_t b_row = cols_of_tile<T>;
  if (cols == width) return tile_of<T, R, V>(rows, steps, a, b, b_row, c, c_row, accumulate, beside);
  alignas(64) T edge[R * width];
  if (accumulate)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t x = 0; x < width; ++x) edge[r * width + x] = x < cols ? c[r * c_row + x] : T(0);
  tile_of<T, R, V>(rows, steps, a, b, b_row, edge, int64_t(width), accumulate);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t x = 0; x < cols; ++x) c[r * c_row + x] = edge[r * width + x];
}

// The same in as few registers as have the columns: half of a tile's, or all.
template <class T, class M>
void store_tile(int64_t steps, const Left<M>& a, const M* b, T* c, int64_t c_row, int64_t rows, int64_t cols,
                bool accumulate, const Beside<T>* beside) {
  constexpr int half = vectors_of_tile / 2;
  if (cols <= half * lanes<T>) store_registers<half>(steps, a, b, c, c_row, rows, cols, accumulate, beside);
  else store_registers<vectors_of_tile>(steps, a, b, c, c_row, rows, cols, accumulate, beside);
}

// What the epilogue reads and writes from element `at` of c on, beside c.
template <class T>
MESHRT_INLINE Beside<T> beside_result(const Epilogue<T>& f, int64_t at, int64_t row) {
  Beside<T> beside;
  int n = 0;
  if (f.slope) beside.at[n++] = f.slope + at;
  if (f.times) beside.at[n++] = f.times + at;
  if (f.plus) beside.at[n++] = f.plus + at;
  if (f.rounded) beside.rounded = f.rounded + at;
  beside.row = row;
  return beside;
}

// Fetches the tile of c at (i, j), as far as there are rows up to `end` and columns up to `past`: a tile that is added
// to is read before anything else happens.
template <class T, class A, class B>
void fetch_c(const Product<T, A, B>& p, int64_t i, int64_t end, int64_t j, int64_t past) {
  const int64_t rows = smaller(rows_of_tile, end - i), cols = smaller(cols_of_tile<T>, past - j);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t x = 0; x < cols; x += line_bytes / int64_t(sizeof(T)))
      __builtin_prefetch(p.c + (i + r) * p.c_row + j + x);
}

// The product for rows [begin, end) of a and columns `first` .. of b. left_of(k, inner) says where these rows lie for
// the columns k .. of a.
template <class T, class A, class B, class M, class LeftOf>
void multiply_rows(const Product<T, A, B>& p, const Blocking& blocking, const Right<T, B, M>& b, int64_t begin,
                   int64_t end, int64_t first, LeftOf left_of) {
  constexpr int64_t width = cols_of_tile<T>;
  const auto [chunk, group] = blocking;
  const bool plain = is_plain(p.epilogue);
  // A sum that is whole at once, and of which nobody reads more than what it rounds to, goes to no memory.
  const bool leaves_c = p.epilogue.rounded_alone && chunk >= p.inner && !p.accumulate;
  alignas(line_bytes) T sums[rows_of_tile * width];
  M* panels = scratch<M>(panel_scratch, steps_of<M>(chunk) * group);
  for (int64_t k = 0; k == 0 || k < p.inner; k += chunk) {
    const int64_t inner = smaller(chunk, p.inner - k), steps = steps_of<M>(inner);
    const bool follows = !plain && k + inner == p.inner, accumulate = k > 0 || p.accumulate;
    const Left<M> a = left_of(k, inner);
    for (int64_t j = first; j < p.cols; j += group) {
      poll();
      const int64_t past = smaller(j + group, p.cols);
      for (int64_t q = j; q < past; q += width) {
        const int64_t cols = smaller(width, past - q);
        if (!b.packed_as_read(inner, cols, end - begin)) b.pack(k, inner, q, cols, panels + (q - j) * steps);
        if (b.sums && begin == 0 && end > 0) b.add_sums(k, inner, q, cols);
      }
      Prefetch<T, A, B, M> next(b, k, blocking, j, past, p);
      for (int64_t i = begin; i < end; i += rows_of_tile) {
        const int64_t rows = smaller(rows_of_tile, end - i);
        const Left<M> here = {a.at + (i - begin) * a.row, a.row, a.col};
        for (int64_t q = j; q < past; q += width) {
          next.step();
          const int64_t cols = smaller(width, past - q);
          if (accumulate) {
            const bool more = q + width < past;
            fetch_c(p, more ? i : i + rows_of_tile, end, more ? q + width : j, past);
          }
          const int64_t at = i * p.c_row + q, c_row = leaves_c ? width : p.c_row;
          T* const c = leaves_c ? sums : p.c + at;
          M* const panel = panels + (q - j) * steps;
          const Beside<T> beside = follows ? beside_result(p.epilogue, at, p.c_row) : Beside<T>{};
          const Beside<T>* const wanted = follows ? &beside : nullptr;
          if (i == begin && b.packed_as_read(inner, cols, end - begin))
            tile<T, rows_of_tile, vectors_of_tile>(steps, here, b.b + k * b.row + q, b.row, c, c_row, accumulate,
                                                   wanted, Packs<M>{panel});
          else store_tile(steps, here, panel, c, c_row, rows, cols, accumulate, wanted);
          if (follows) epilogue_apart(p.epilogue, c, c_row, at, p.c_row, q, rows, cols);
        }
      }
    }
  }
}

template <class T, class A, class B>
void multiply_wide(const Product<T, A, B>& p, T* sums) {
  using M = Multiplicand<T, A, B>;
  const Right<T, B, M> b = {p.b, p.b_row, p.b_col, sums, p.cols};
  int64_t done = 0;
  if constexpr (!std::is_same_v<B, AsBfloat16>) done = multiply_few_rows(p);  // which read b where it lies
  if (done && sums) b.add_sums(0, p.inner, 0, done);
  if (done == p.cols && p.cols > 0) return;
  const Blocking blocking = blocking_of<M>(p);
  const Left<M> in_place = left_in_place<M>(p);
  int64_t block = larger(p.rows, 1);
  M* copy = nullptr;
  if (!in_place.at) {
    const int64_t steps = larger(usual_steps, steps_of<M>(blocking.chunk));
    block = left_bytes<M>(p) / (steps * int64_t(sizeof(M))) / rows_of_tile * rows_of_tile;
    copy = scratch<M>(left_scratch, round_up(smaller(block, p.rows), rows_of_tile) * (steps + apart_by<M>));
  }
  for (int64_t begin = 0; begin < p.rows; begin += block) {
    const int64_t end = smaller(begin + block, p.rows);
    multiply_rows(p, blocking, b, begin, end, done, [&](int64_t k, int64_t inner) {
      if (!in_place.at) return copy_left(p, begin, end, k, inner, copy);
      return Left<M>{in_place.at + k / depth<M> * in_place.col, in_place.row, in_place.col};
    });
  }
}

// For few columns: the transposed product, whose few rows are long, and back, a block of rows of c at a time.
template <class T, class A, class B>
void multiply_narrow(const Product<T, A, B>& p) {
  constexpr int64_t block = group_panels<T> * cols_of_tile<T>;
  T* turned = scratch<T>(narrow_scratch, p.cols * block);
  for (int64_t i = 0; i < p.rows; i += block) {
    const int64_t rows = smaller(block, p.rows - i);
    if (p.accumulate)
      for (int64_t j = 0; j < p.cols; ++j)
        for (int64_t r = 0; r < rows; ++r) turned[j * block + r] = p.c[(i + r) * p.c_row + j];
    Product<T, B, A> t;
    t.rows = p.cols, t.cols = rows, t.inner = p.inner;
    t.a = p.b, t.a_row = p.b_col, t.a_col = p.b_row;
    t.b = p.a + i * p.a_row, t.b_row = p.a_col, t.b_col = p.a_row;
    t.c = turned, t.c_row = block, t.accumulate = p.accumulate;
    multiply_wide(t, static_cast<T*>(nullptr));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < p.cols; ++j) p.c[(i + r) * p.c_row + j] = turned[j * block + r];
    if (!is_plain(p.epilogue)) epilogue_tile(p.epilogue, p.c, p.c_row, i, 0, rows, p.cols);
  }
}

// [16, cols] of zeros where the sums of b's columns are wanted, else nothing.
template <class T, class A, class B>
T* clear_sums(const Product<T, A, B>& p) {
  if (!p.column_sum) return nullptr;
  T* sums = scratch<T>(sum_scratch, sum_lanes * p.cols);
  for (int64_t i = 0; i < sum_lanes * p.cols; ++i) sums[i] = 0;
  return sums;
}

template <class T, class A, class B>
void store_sums(const Product<T, A, B>& p, T* sums) {
  if (!sums) return;
  for (int64_t step = sum_lanes / 2; step > 0; step /= 2)
    for (int64_t i = 0; i < step * p.cols; ++i) sums[i] += sums[i + step * p.cols];
  for (int64_t j = 0; j < p.cols; ++j) p.column_sum[j] = p.accumulate ? p.column_sum[j] + sums[j] : sums[j];
}

template <class T, class A, class B>
void sum_columns(const Product<T, A, B>& p, T* sums) {
  if (sums) Right<T, B, T>{p.b, p.b_row, p.b_col, sums, p.cols}.add_sums(0, p.inner, 0, p.cols);
}

}  // namespace

template <class T, class A, class B>
void multiply(const Product<T, A, B>& p) {
  T* sums = clear_sums(p);
  const bool narrow = p.cols <= lanes<T> && p.rows > p.cols;
  if (narrow || p.rows == 0) sum_columns(p, sums);
  if (narrow) multiply_narrow(p);
  else multiply_wide(p, sums);
  store_sums(p, sums);
}

template <class T, class A, class B>
void complete(const Product<T, A, B>& p) {
  T* sums = clear_sums(p);
  sum_columns(p, sums);
  store_sums(p, sums);
  if (!is_plain(p.epilogue)) epilogue_tile(p.epilogue, p.c, p.c_row, 0, 0, p.rows, p.cols);
}

#if !defined(__AVX512BF16__)  // that set is for products of two of bf16
template void multiply(const Product<float>&);
template void multiply(const Product<double>&);
template void multiply(const Product<float, float, Bfloat16>&);
template void multiply(const Product<float, Bfloat16, float>&);
template void multiply(const Product<float, Float16>&);
template void multiply(const Product<float, float, Float16>&);
template void multiply(const Product<float, Float16, float>&);
template void complete(const Product<float>&);
template void complete(const Product<double>&);
template void complete(const Product<float, Bfloat16>&);
#endif
template void multiply(const Product<float, Bfloat16>&);
template void multiply(const Product<float, Bfloat16, AsBfloat16>&);

}  // namespace meshrt::MESHRT_ISA
