// ordered_sums.h: loops whose turns store what is their own, and also add to sums that they have in common, as the
// gradient of a gain is summed over all rows. Turns are shared by threads in blocks: a block has memory of its own for
// what its turns add, and when its turn comes, after the blocks before it, this is added to the sums, row by row. So
// each sum is added up in the order of one thread, and its bits are the same.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <tuple>
#include <type_traits>

#include "meshrt/lanes.h"
#include "meshrt/poll.h"
#include "meshrt/threads.h"

namespace meshrt {

namespace detail {

constexpr int64_t bytes_of_a_block = int64_t(1) << 15;  // that its turns add: in the first cache until its turn comes

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

/// Sums that the turns of one loop have in common: `n` times as many, each time side by side.
template <class T, size_t n>
class OrderedSums {
 public:
  OrderedSums(int64_t count, const std::array<T*, n>& to) : count_(count), to_(to) {}

  /// turn(i, to) for each i below `extent`, shared as by meshrt::each(): `to[k][c] += x` adds to the c-th of the k-th
  /// sums; a turn does so once or not at all. `to` are n pointers, or one to n of them.
  template <class Turn>
  void each(int64_t extent, int64_t least, const Turn& turn) const {
    const int64_t width = static_cast<int64_t>(n) * count_, bytes = width * static_cast<int64_t>(sizeof(T));
    const int64_t most = detail::bytes_of_a_block / std::max<int64_t>(bytes, 1);
    const int64_t block = std::clamp<int64_t>(most, 1, std::max<int64_t>(least, 1));
    const int64_t blocks = (extent + block - 1) / block;
    const auto turns = [&](int64_t number, const auto& make) {
      for (int64_t i = number * block; i < std::min(extent, (number + 1) * block); ++i) make(i);
      poll();
    };
    Threads* const all = Threads::mine();
    if (all == nullptr || extent < 2 * least) {
      for (int64_t number = 0; number < blocks; ++number) turns(number, [&](int64_t i) { call(turn, i, to_); });
      return;
    }
    const auto compute = [&](int64_t number, void* memory) {
      T* next = static_cast<T*>(memory);
      std::fill_n(next, block * width, T(-0.0));  // -0 + x is x, also where x is -0
      turns(number, [&](int64_t i) {
        std::array<T*, n> to;
        for (T*& one : to) one = next, next += count_;
        call(turn, i, to);
      });
    };
    const auto finish = [&](int64_t number, void* memory) {
      const T* const added = static_cast<const T*>(memory);
      const int64_t rows = std::min(block, extent - number * block);
      for (size_t k = 0; k < n; ++k)
        detail::add_rows(added + static_cast<int64_t>(k) * count_, rows, width, to_[k], count_);
    };
    detail::in_order(*all, blocks, block * bytes, compute, finish);
  }

 private:
  template <class Turn>
  static void call(const Turn& turn, int64_t i, const std::array<T*, n>& to) {
    if constexpr (std::is_invocable_v<Turn, int64_t, T* const*>) turn(i, to.data());
    else std::apply([&](auto... pointers) { turn(i, pointers...); }, to);
  }

  int64_t count_;
  std::array<T*, n> to_;
};

/// `count` sums from each of `to` on, which begin as they are; in sums_from_zero as 0.
template <class T, class... More>
auto sums_onto(int64_t count, T* first, More*... more) {
  return OrderedSums<T, 1 + sizeof...(More)>(count, {first, more...});
}
template <class T, class... More>
auto sums_from_zero(int64_t count, T* first, More*... more) {
  for (T* const to : {first, more...}) std::fill_n(to, count, T(0));
  return sums_onto(count, first, more...);
}

}  // namespace meshrt
