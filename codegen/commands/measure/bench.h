// bench.h: short runs of the runtime's kernels on all ranks at once, each timed on the slowest of them.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "meshrt/plan.h"
#include "meshrt/rank.h"
#include "meshrt/types.h"

namespace mesh {

/// Products, attention, functions of elements, and going through memory.
class Bench {
 public:
  explicit Bench(meshrt::Rank&);

  /// Seconds of a product forward and of those of its two gradients.
  double products_f32();
  double products_f64();
  double products_bf16();
  static double flops();

  /// As much as a step may do from one call to the next.
  void work_between_calls(int64_t turn);

  /// Seconds of causal attention forward and backward, in f32, and of operands in bf16.
  double attention_f32();
  double attention_bf16();
  static double attention_flops();

  /// Seconds of functions of elements and of random numbers, in f32 and in the cache.
  double elementwise();
  static double elementwise_flops();

  /// Seconds of reading two arrays and writing one of them, again and again.
  double memory(size_t index);
  static constexpr int64_t touched[] = {256 << 10, 1 << 20, 4 << 20, 16 << 20, 96 << 20};  // by index, bytes

  /// Seconds that the slowest rank takes when all begin together.
  double slowest(const std::function<void()>& work);

 private:
  template <class T, class In>
  double three_products(const In* x, T* y);
  template <class In>
  double attention(const In* x);

  meshrt::Rank& rank_;
  const meshrt::Group& all_;
  std::vector<float> x_, y_;  // what is read and written
  std::vector<double> wide_x_, wide_y_;
  std::vector<meshrt::Bfloat16> narrow_x_;
};

/// Calls of the groups over one axis, all groups at once, by sizes.
class CallBench {
 public:
  static constexpr int64_t sizes[] = {64, 4096, 65536, 262144, 1 << 20, 4 << 20, 16 << 20};  // bytes of the value
  static constexpr size_t count = std::size(sizes);
  static constexpr size_t arena = 2 * (size_t{16} << 20);  // that the calls take

  CallBench(meshrt::Rank&, Bench&, meshrt::Axis);

  int ranks() const { return group_.size(); }
  /// Seconds of one call with the size of this index.
  double all_reduce(size_t index) { return seconds(all_reduces_[index], index); }
  double send(size_t index) { return seconds(sends_[index], index); }
  /// Seconds that the smallest all-reduce adds to so many seconds of work before it, of which the call itself takes
  /// some.
  double all_reduce_after(double work);

 private:
  /// A call of one size from several places: a step's next value is none that the caches still have.
  using Places = std::vector<meshrt::Plan>;

  double seconds(Places&, size_t index);

  Bench& bench_;
  const meshrt::Group& group_;
  std::vector<Places> all_reduces_, sends_;  // by size
};

}  // namespace mesh
