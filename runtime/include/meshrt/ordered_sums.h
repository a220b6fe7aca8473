// ordered_sums.h: loops whose turns store what is their own, and also add to sums that they have in common, as the
// gradient of a gain is summed over all rows. Turns are shared by threads in blocks: a block has memory of its own for
// what its turns add, and when its turn comes, after the blocks before it, this is added to the sums, row by row. So
// each sum is added up in the order of one thread, and its bits are the same.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>

#include "meshrt/lanes.h"
#include "meshrt/poll.h"
#include "meshrt/threads.h"

namespace meshrt {

namespace detail {

constexpr int64_t bytes_of_a_block = int64_t(1) << 16;  // that its turns add: in the cache until its turn comes

/// compute(b, memory) for each b below `blocks`, on all threads of the rank, and after it finish(b, memory) of the same
/// `bytes`, on the same thread: one block after the other.
void in_order(Threads&, int64_t blocks, int64_t bytes, const std::function<void(int64_t, void*)>& compute,
              const std::function<void(int64_t, void*)>& finish);

/// to[c] += added[r][c] row by row, for so many vectors of columns, which are in registers meanwhile; rows lie
/// `distance` apart.
template <int vectors, class T>
void add_vectors(const T* added, int64_t rows, int64_t distance, T* to) {
  typedef T Vector __attribute__((vector_size(vector_bytes), aligned(sizeof(T)), may_alias));
  constexpr int width = vector_bytes / sizeof(T);
  Vector sum[vectors];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) sum[v] = *reinterpret_cast<const Vector*>(to + v * width);
  for (int64_t r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sum[v] += *reinterpret_cast<const Vector*>(added + r * distance + v * width);
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) *reinterpret_cast<Vector*>(to + v * width) = sum[v];
}

/// The same for `count` columns.
template <class T>
void add_rows(const T* added, int64_t rows, int64_t distance, T* to, int64_t count) {
  constexpr int64_t width = vector_bytes / sizeof(T);
  int64_t c = 0;
  for (; c + 8 * width <= count; c += 8 * width) add_vectors<8>(added + c, rows, distance, to + c);
  for (; c + 2 * width <= count; c += 2 * width) add_vectors<2>(added + c, rows, distance, to + c);
  for (; c + width <= count; c += width) add_vectors<1>(added + c, rows, distance, to + c);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t rest = c; rest < count; ++rest) to[rest] += added[r * distance + rest];
}

}  // namespace detail

/// The sums that the turns of one loop have in common.
template <class T>
class OrderedSums {
 public:
  static constexpr size_t most = 16;

  /// `count` sums from `to` on, which begin as they are; in from_zero as 0.
  void onto(T* to, int64_t count) {
    sums_[size_++] = {to, count};
    width_ += count;
  }
  void from_zero(T* to, int64_t count) {
    std::fill_n(to, count, T(0));
    onto(to, count);
  }

  /// turn(i, to) for each i below `extent`, shared as by each(): `to[k][c] += x` adds to the c-th sum of the k-th call
  /// above; a turn does so once or not at all.
  template <class Turn>
  void each(int64_t extent, int64_t least, const Turn& turn) const {
    const int64_t bytes = std::max<int64_t>(1, width_ * static_cast<int64_t>(sizeof(T)));
    const int64_t block = std::clamp<int64_t>(detail::bytes_of_a_block / bytes, 1, std::max<int64_t>(least, 1));
    const int64_t blocks = (extent + block - 1) / block;
    Threads* const all = Threads::mine();
    if (all == nullptr || extent < 2 * least) {
      std::array<T*, most> to;
      for (size_t k = 0; k < size_; ++k) to[k] = sums_[k].to;
      for (int64_t number = 0; number < blocks; ++number)
        turns(extent, block, number, [&](int64_t i) { turn(i, to.data()); });
      return;
    }
    const auto compute = [&](int64_t number, void* memory) {
      T* next = static_cast<T*>(memory);
      std::fill_n(next, block * width_, T(-0.0));  // -0 + x is x, also where x is -0
      turns(extent, block, number, [&](int64_t i) {
        std::array<T*, most> to;
        for (size_t k = 0; k < size_; ++k) to[k] = next, next += sums_[k].count;
        turn(i, to.data());
      });
    };
    const auto finish = [&](int64_t number, void* memory) {
      const T* added = static_cast<const T*>(memory);
      const int64_t rows = std::min(block, extent - number * block);
      for (size_t k = 0; k < size_; added += sums_[k++].count)
        detail::add_rows(added, rows, width_, sums_[k].to, sums_[k].count);
    };
    detail::in_order(*all, blocks, block * bytes, compute, finish);
  }

 private:
  struct Sums {
    T* to;
    int64_t count;
  };

  template <class Turn>
  static void turns(int64_t extent, int64_t block, int64_t number, const Turn& turn) {
    for (int64_t i = number * block; i < std::min(extent, (number + 1) * block); ++i) turn(i);
    poll();
  }

  std::array<Sums, most> sums_;
  size_t size_ = 0;
  int64_t width_ = 0;  // of all of them together
};

}  // namespace meshrt
