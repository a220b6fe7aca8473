// permutation.h: a shuffled order that takes no memory and needs no history: where a thing comes is computed from its
// number and a key, so that every rank, every layout and a run that goes on agree.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "meshrt/random.h"

namespace meshrt {

/// A bijection of [0, size), one of very many, chosen by the key: a Feistel network over the next power of four,
/// entered again until it gives a number below `size`.
class Permutation {
 public:
  Permutation(int64_t size, RandomKey key)
      : size_(static_cast<uint64_t>(size)),
        half_(std::max(1, (static_cast<int>(std::bit_width(size_ - 1)) + 1) / 2)),
        key_(detail::mix(key.key ^ key.draw)) {}

  int64_t operator()(int64_t index) const {
    auto place = static_cast<uint64_t>(index);
    do place = once(place);
    while (place >= size_);
    return static_cast<int64_t>(place);
  }

 private:
  uint64_t once(uint64_t place) const {
    const uint64_t mask = (uint64_t{1} << half_) - 1;
    uint64_t left = place >> half_, right = place & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t moved = left ^ (detail::mix(detail::mix(key_ + round) + right) & mask);
      left = right;
      right = moved;
    }
    return left << half_ | right;
  }

  uint64_t size_;
  int half_;  // bits of either half
  uint64_t key_;
};

}  // namespace meshrt
