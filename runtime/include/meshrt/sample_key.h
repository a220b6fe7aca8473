// sample_key.h: random numbers of samples that are read batch by batch. They go by a sample's place in the whole set,
// so they are the same whatever the size of a batch, and a sample that fills up the last batch has its own again.
#pragma once
#include <cstdint>
#include <limits>

#include "meshrt/random.h"
#include "meshrt/step_input.h"

namespace meshrt {

class SampleKey {
 public:
  /// `each`: how many numbers a sample has. They lie together in the batch.
  constexpr SampleKey(RandomKey key, const StepInput& input, int64_t each)
      : key_(key),
        first_(input.first_sample * each),
        again_(input.distinct > 0 ? input.distinct * each : std::numeric_limits<int64_t>::max()) {}
  constexpr RandomKey key() const { return key_; }
  /// Where the number at `index` of the batch stands in the set.
  constexpr int64_t place(int64_t index) const { return first_ + (index < again_ ? index : index % again_); }

 private:
  RandomKey key_;
  int64_t first_, again_;
};

template <class T>
MESHRT_INLINE T uniform(const SampleKey& key, int64_t index) {
  return uniform<T>(key.key(), key.place(index));
}
template <class T>
MESHRT_INLINE T normal(const SampleKey& key, int64_t index) {
  return normal<T>(key.key(), key.place(index));
}

}  // namespace meshrt
