// one_pass.h: a reduce-scatter, an update of each rank's part and an all-gather in one pass over memory. Where the
// ranks of the group share memory, a rank adds up a stretch of all members' gradients, makes the update of that sum
// while it is in the cache, and writes the result to all members; elsewhere the three are done one after the other. The
// bits are the same. Of S bytes of parameters split over k ranks, each rank moves S of gradients and S of parameters
// between caches, where the three of them move half as much again and bring S/k in and out of memory twice more.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "meshrt/plan.h"

namespace meshrt {

/// A stretch of this member's part [outer, own, inner] of a value: whole rows of it, or a piece of one row.
template <class Sum, class Next>
struct Updated {
  const Sum* sum;  ///< [rows, cols], of all members' gradients; null where the pass adds up nothing
  Next* next;      ///< [rows, cols], to be written: what all members get
  int64_t part;    ///< where it begins in the part, in elements
  int64_t whole;   ///< the same in the whole value, from where the part begins there
  int64_t rows, cols;
};

class OnePass {
 public:
  OnePass() = default;
  /// Value i of `scatter` is what the update of value i of `gather` reads; both split it alike. The plans stay where
  /// they are. With MESHRT_NO=one-pass they are run one after the other.
  OnePass(Plan& scatter, Plan& gather);
  /// Of sums that there are already.
  explicit OnePass(Plan& gather);

  /// Returns when all members' gradients are there.
  void begin();
  /// update(Updated<Sum, Next>) for all of value `index`, on all threads of the rank, in any order.
  template <class Sum, class Next, class Apply>
  void update(size_t index, const Apply& apply) {
    each_stretch(index, [&](const Updated<void, void>& s) {
      apply(Updated<Sum, Next>{static_cast<const Sum*>(s.sum), static_cast<Next*>(s.next), s.part, s.whole, s.rows,
                               s.cols});
    });
  }
  /// Returns when all members have what the others have made.
  void end();

 private:
  struct Value;
  using Update = std::function<void(const Updated<void, void>&)>;

  OnePass(Plan* scatter, Plan& gather);
  void each_stretch(size_t index, const Update&) const;
  void stretch(const Value&, int64_t row, int64_t col, int64_t rows, int64_t cols, const Update&) const;

  /// One that is updated; sizes in bytes.
  struct Value {
    const std::byte *gradient = nullptr, *sum = nullptr;  // this member's whole, and its part of the sum
    std::byte *next = nullptr, *parameter = nullptr;      // its part of what all get, and the whole
    Type sum_type = Type::f32;
    Reduce reduce = Reduce::sum;
    int64_t sum_size = 0, next_size = 0;                  // of an element
    int64_t outer = 0, row = 0, part_row = 0, begin = 0;  // elements: of a row of the whole and of the part, and before
  };

  Plan *scatter_ = nullptr, *gather_ = nullptr;
  Plan arrive_, leave_;
  std::vector<Value> values_;
  std::vector<int64_t> apart_;  // by member: how far its arena lies from this one's; empty: they share none
  int64_t sent_ = 0;
};

}  // namespace meshrt
