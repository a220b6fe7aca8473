#include "data/sample_order.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "data/permutation.h"

namespace meshrt {

SampleOrder::SampleOrder(std::vector<int64_t> sizes, const std::vector<double>& weights) : sizes_(std::move(sizes)) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  double before = 0;
  for (const double weight : weights) {
    first_.push_back(std::llround(before / all * block));
    before += weight;
  }
  first_.push_back(block);
}

void SampleOrder::seed(uint64_t seed, bool shuffled) {
  seed_ = seed;
  shuffled_ = shuffled;
}

SamplePlace SampleOrder::at(int64_t position) const {
  size_t part = 0;
  int64_t number = position;  // of the part's samples, over the whole run
  if (sizes_.size() > 1) {
    const int64_t of_block = position / block;
    const int64_t place =
        Permutation(block, RandomKey(seed_, "mixture").at(static_cast<uint64_t>(of_block)))(position % block);
    while (place >= first_[part + 1]) ++part;
    number = of_block * share(part) + place - first_[part];
  }
  const int64_t size = sizes_[part], pass = number / size, within = number % size;
  if (!shuffled_) return {part, within};
  const std::string what = part == 0 ? "data" : fmt::format("data {}", part);
  return {part, Permutation(size, RandomKey(seed_, what).at(static_cast<uint64_t>(pass)))(within)};
}

}  // namespace meshrt
