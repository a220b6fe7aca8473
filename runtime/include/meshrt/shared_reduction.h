// shared_reduction.h: reductions of many elements to one number, as a loss, or the norm of all gradients, shared by the
// threads of the rank. Rows are cut into pieces, and pieces put together in blocks, where the extents alone say so.
// Each block is reduced in lanes of its own (lanes.h), and these are joined in the order of the blocks: the bits are
// the same for every number of threads, and those of lanes.h where all is one block.
//
//   const float total = shared_sum<float>(n, [&](int64_t i) { return x[i] * y[i]; });
//   const float total = shared_sum<float>(rows, cols, [&](int64_t r, auto& lanes) {
//     lanes.add(cols, [&](int64_t c) { return x[r * cols + c]; });
//   });
#pragma once
#include <algorithm>
#include <cstdint>

#include "meshrt/lanes.h"
#include "meshrt/poll.h"
#include "meshrt/threads.h"

namespace meshrt {

/// How a reduction over `rows` of `cols` elements is cut.
struct ReductionBlocks {
  static constexpr int64_t longest_piece = 1 << 12;  // elements of one row; its lanes begin at lane 0
  static constexpr int64_t most = 256;               // blocks, whose lanes are kept until all are there

  int64_t pieces_of_row = 0;
  int64_t pieces = 0;           // of all rows
  int64_t pieces_of_block = 1;  // but for the last block
  int64_t blocks = 0;

  constexpr ReductionBlocks(int64_t rows, int64_t cols) {
    if (rows <= 0 || cols <= 0) return;
    pieces_of_row = (cols + longest_piece - 1) / longest_piece;
    pieces = rows * pieces_of_row;
    pieces_of_block = std::max(elements_of_a_thread / std::min(cols, longest_piece), (pieces + most - 1) / most);
    blocks = (pieces + pieces_of_block - 1) / pieces_of_block;
  }
};

namespace detail {

/// The lanes as they take the elements of one piece.
template <class T, Reduce reduce>
struct LanesOfPiece {
  Lanes<T, reduce>& lanes;
  int64_t begin;  // of the piece in its row

  template <class F>
  MESHRT_INLINE void add(int64_t cols, const F& f) const {
    const int64_t count = std::min(cols - begin, ReductionBlocks::longest_piece);
    lanes.add(count, [&](int64_t i) { return f(begin + i); });
  }
};

template <class T, Reduce reduce, class Row>
MESHRT_INLINE Lanes<T, reduce> reduce_block(const ReductionBlocks& cut, int64_t block, const Row& row) {
  Lanes<T, reduce> lanes;
  const int64_t first = block * cut.pieces_of_block, last = std::min(first + cut.pieces_of_block, cut.pieces);
  int64_t r = first / cut.pieces_of_row, piece = first % cut.pieces_of_row;
  for (int64_t i = first; i < last; ++i) {
    LanesOfPiece<T, reduce> part{lanes, piece * ReductionBlocks::longest_piece};
    row(r, part);
    if (++piece == cut.pieces_of_row) piece = 0, ++r;
    poll();
  }
  return lanes;
}

template <class T, Reduce reduce, class Row>
T reduce_shared(int64_t rows, int64_t cols, const Row& row) {
  const ReductionBlocks cut(rows, cols);
  T kept[ReductionBlocks::most][lane_count];
  meshrt::share(cut.blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const Lanes<T, reduce> lanes = reduce_block<T, reduce>(cut, block, row);
      std::copy_n(lanes.lane, lane_count, kept[block]);
    }
  });
  Lanes<T, reduce> all;
  for (int64_t block = 0; block < cut.blocks; ++block) all.join(kept[block]);
  return all.combine();
}

template <class T, Reduce reduce, class F>
T reduce_shared(int64_t n, const F& f) {
  return reduce_shared<T, reduce>(1, n, [&](int64_t, const auto& lanes) { lanes.add(n, f); });
}

}  // namespace detail

/// Of f(i) for each i below n; or of rows, where `row(r, lanes)` adds the `cols` elements of row r to `lanes`. It may
/// be called for parts of a row, in any order, on any thread: what it stores is each element's own. As lanes.h has it
/// for no elements.
template <class T, class... Extents>
T shared_sum(const Extents&... extents_and_turn) {
  return detail::reduce_shared<T, Reduce::sum>(extents_and_turn...);
}
template <class T, class... Extents>
T shared_max(const Extents&... extents_and_turn) {
  return detail::reduce_shared<T, Reduce::max>(extents_and_turn...);
}
template <class T, class... Extents>
T shared_min(const Extents&... extents_and_turn) {
  return detail::reduce_shared<T, Reduce::min>(extents_and_turn...);
}

}  // namespace meshrt
