// rounds.h: texts that a program takes side by side.
#pragma once
#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

namespace meshrt {

/// Numbers of texts, at most so many a round: those of like lengths share one.
inline std::vector<std::vector<size_t>> rounds_of(std::span<const size_t> lengths, size_t most) {
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return lengths[i]; });
  std::vector<std::vector<size_t>> rounds;
  for (size_t at = 0; at < order.size(); at += most) {
    const std::span<const size_t> now = std::span(order).subspan(at, std::min(most, order.size() - at));
    rounds.emplace_back(now.begin(), now.end());
  }
  return rounds;
}

}  // namespace meshrt
