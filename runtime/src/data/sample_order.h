// sample_order.h: which sample comes at which place of a run. Computed from the place alone, so that every rank, every
// layout and a run that goes on agree, and one number tells where a run stands.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace meshrt {

/// A sample: its number in one of the parts that samples come from.
struct SamplePlace {
  size_t part;
  int64_t number;
};

/// Samples of one part come in its order, or each pass in a shuffled order of its own; after the last one the first
/// follows. Of several parts each gets its share of every `block` samples: which places of a block are whose is a
/// permutation of the block's own, so a part is gone through without chance, as often as its share takes it.
class SampleOrder {
 public:
  static constexpr int64_t block = 10'000;

  SampleOrder() = default;
  /// `sizes`: samples of each part, at least one each. `weights`: one a part, above zero.
  SampleOrder(std::vector<int64_t> sizes, const std::vector<double>& weights);

  /// Samples of every block that come from a part; 0 for a weight that is too small.
  int64_t share(size_t part) const { return first_[part + 1] - first_[part]; }
  /// What decides the order of parts, and, when they are shuffled, that within each.
  void seed(uint64_t seed, bool shuffled);
  SamplePlace at(int64_t position) const;

 private:
  std::vector<int64_t> sizes_;
  std::vector<int64_t> first_;  // of each part among a block's places before they are permuted; then `block`
  uint64_t seed_ = 0;
  bool shuffled_ = false;
};

}  // namespace meshrt
