// right_operand.h: the right operand of a product, of which panels of a tile's width are copied.
#pragma once
#include "blocking.h"
#include "meshrt/gemm.h"
#include "multiplicand.h"
#include "tile.h"

namespace meshrt::MESHRT_ISA {

// The right operand, and the sums of its columns if they are wanted: [16, cols], lane k mod 16.
template <class T, class B, class M>
struct Right {
  const B* b;
  int64_t row, col;
  T* sums;
  int64_t cols;  // of all of b

  // panel [steps, cols_of_tile] = rows k .., columns j .. of b, with zeros beyond `count` columns as far as tiles read
  void pack(int64_t k, int64_t inner, int64_t j, int64_t count, M* panel) const {
    constexpr int width = cols_of_tile<T>, n = lanes<M>;
    const B* from = b + k * row + j * col;
    if (count < (count > width / 2 ? width : width / 2))
      for (int64_t i = 0; i < steps_of<M>(inner) * width; ++i) panel[i] = 0;
    if (col == 1 && count == width) {
      for (int64_t r = 0; r < inner; r += depth<M>)
        multiplicands<width>(from + r * row, row, inner - r, panel + r / depth<M> * width);
    } else if (col == 1 && count % n == 0) {
      for (int64_t r = 0; r < inner; r += depth<M>)
        for (int64_t c = 0; c < count; c += n)
          multiplicands<n>(from + r * row + c, row, inner - r, panel + r / depth<M> * width + c);
    } else if (row == 1) {
      turn(from, col, count, inner, panel, int64_t(width));
    } else {
      for (int64_t r = 0; r < inner; r += depth<M>)
        for (int64_t c = 0; c < count; ++c)
          panel[r / depth<M> * width + c] = multiplicand<M>(from + r * row + c * col, row, inner - r);
    }
  }

  void add_sums(int64_t k, int64_t inner, int64_t j, int64_t count) const {
    for (int64_t r = 0; r < inner; ++r) {
      T* __restrict lane = sums + (k + r) % sum_lanes * cols + j;
      const B* from = b + (k + r) * row + j * col;
      for (int64_t c = 0; c < count; ++c) lane[c] += static_cast<T>(from[c * col]);
    }
  }

  // Whether the first tile that reads a panel can take it from b itself and pack it on the way: b lies in rows, and the
  // tile is a whole one.
  bool packed_as_read(int64_t inner, int64_t count, int64_t rows) const {
    return col == 1 && count == cols_of_tile<T> && inner % depth<M> == 0 && rows >= rows_of_tile;
  }
};

// Fetches what the next group of panels is packed from, a few lines of the cache at a time, spread over the tiles of
// this one.
template <class T, class A, class B, class M>
class Prefetch {
 public:
  // The group after rows k .., columns j .. end; nothing where it would be the last or has no unit stride.
  Prefetch(const Right<T, B, M>& b, int64_t k, const Blocking& blocking, int64_t j, int64_t end,
           const Product<T, A, B>& p) {
    const bool more_cols = end < p.cols;
    const int64_t row = more_cols ? k : k + blocking.chunk, col = more_cols ? end : 0;
    const int64_t inner = smaller(blocking.chunk, p.inner - row), width = blocking.group;
    if (row >= p.inner || p.cols - col < width || (b.col != 1 && b.row != 1) || inner < piece) return;
    stretch_ = b.b + row * b.row + col * b.col;
    length_ = b.col == 1 ? width : inner, next_stretch_ = b.col == 1 ? b.row : b.col;
    pieces_ = inner * width / piece;
    share_ = pieces_ * (rows_of_tile * cols_of_tile<T>) / larger(1, p.rows * (end - j)) + 1;
  }
  void step() {
    const int64_t count = smaller(share_, pieces_);
    pieces_ -= count;
    for (int64_t i = 0; i < count; ++i) {
#pragma GCC unroll 4
      for (int l = 0; l < piece; l += line) __builtin_prefetch(stretch_ + passed_ + l, 0, 2);
      passed_ += piece;
      if (passed_ + piece > length_) passed_ = 0, stretch_ += next_stretch_;
    }
  }

 private:
  static constexpr int64_t line = line_bytes / int64_t(sizeof(B)), piece = 4 * line;
  const B* stretch_ = nullptr;  // elements of b that are neighbours, of which so many pieces are fetched
  int64_t length_ = 0, next_stretch_ = 0, passed_ = 0, pieces_ = 0, share_ = 0;
};

}  // namespace meshrt::MESHRT_ISA
