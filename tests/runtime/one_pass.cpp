// Rows that are longer and shorter than a stretch, parts that are uneven or empty, more values than one call takes, in
// three types, with one and with three threads, in the arena and outside: what a reduce-scatter, an update and an
// all-gather make one after the other, bit by bit.
#include "one_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

#include "meshrt/bfloat16.h"
#include "meshrt/one_pass.h"
#include "meshrt/threads.h"

namespace meshrt::test {

namespace {

struct Shape {
  int64_t outer, middle, inner;
  int64_t whole() const { return outer * middle * inner; }
};

template <class T>
class UpdatedCase {
 public:
  UpdatedCase(Rank& rank, Type type, const Shape& shape, bool in_arena, size_t values)
      : rank_(rank), group_(rank.group(std::vector<Axis>{{rank.ranks(), 1}})), type_(type), shape_(shape) {
    for (int m = 0; m <= rank.ranks(); ++m) begin_.push_back(part_begin(shape.middle, m, rank.ranks()));
    const auto me = static_cast<size_t>(group_.index);
    row_ = (begin_[me + 1] - begin_[me]) * shape.inner;
    first_ = begin_[me] * shape.inner;
    own_.resize(in_arena ? 0 : static_cast<size_t>(3 * shape.whole()) * values);
    T* at = in_arena ? reinterpret_cast<T*>(rank.arena()) : own_.data();
    for (size_t i = 0; i < values; ++i, at += 3 * shape.whole()) at_.push_back(at);
    moments_.resize(values, std::vector<float>(static_cast<size_t>(shape.outer * row_)));
  }

  /// Parameters and moments after three updates; `alone`: of a sum that was made before.
  std::vector<float> in_one_pass(bool alone) {
    begin();
    Plan scatter = plan_reduce_scatter(rank_, group_, site, scattered(), type_, Reduce::sum);
    Plan gather = plan_all_gather(rank_, group_, site, gathered(), type_);
    OnePass pass = alone ? OnePass(gather) : OnePass(scatter, gather);
    for (int turn = 0; turn < 3; ++turn) {
      set_gradients(turn);
      if (alone) scatter.run();
      pass.begin();
      for (size_t i = 0; i < at_.size(); ++i)
        pass.template update<T, T>(i, [&](const auto& at) {
          update(i, alone ? sum(i) + at.part : at.sum, at.next, at.part, at.whole, at.rows, at.cols);
        });
      pass.end();
    }
    return result();
  }

  std::vector<float> one_after_the_other() {
    begin();
    for (int turn = 0; turn < 3; ++turn) {
      set_gradients(turn);
      reduce_scatter(rank_, group_, site, std::span<const Scattered>(scattered()), type_, Reduce::sum);
      for (size_t i = 0; i < at_.size(); ++i) update(i, sum(i), next(i), 0, 0, shape_.outer, row_);
      all_gather(rank_, group_, site, std::span<const Gathered>(gathered()), type_);
    }
    return result();
  }

 private:
  static constexpr Site site{1, "updated"};

  T* gradient(size_t i) const { return at_[i]; }
  T* parameter(size_t i) const { return at_[i] + shape_.whole(); }
  T* sum(size_t i) const { return at_[i] + 2 * shape_.whole(); }  // both parts in the room of one whole
  T* next(size_t i) const { return sum(i); }                      // each is read before it is written

  std::vector<Scattered> scattered() const {
    std::vector<Scattered> all;
    for (size_t i = 0; i < at_.size(); ++i) all.push_back({gradient(i), sum(i), {shape_.outer, begin_, shape_.inner}});
    return all;
  }
  std::vector<Gathered> gathered() const {
    std::vector<Gathered> all;
    for (size_t i = 0; i < at_.size(); ++i)
      all.push_back({next(i), parameter(i), {shape_.outer, begin_, shape_.inner}});
    return all;
  }

  void begin() {
    for (size_t i = 0; i < at_.size(); ++i) {
      for (int64_t e = 0; e < shape_.whole(); ++e) parameter(i)[e] = T(static_cast<float>(e % 97) / 7);
      std::ranges::fill(moments_[i], 0.0F);
    }
  }

  void set_gradients(int turn) {
    for (size_t i = 0; i < at_.size(); ++i)
      for (int64_t e = 0; e < shape_.whole(); ++e)
        gradient(i)[e] = T(static_cast<float>((rank_.rank() + 1) * (e % 31) + turn + static_cast<int64_t>(i)) / 3);
  }

  void update(size_t i, const T* sums, T* results, int64_t part, int64_t whole, int64_t rows, int64_t cols) {
    const T* const before = parameter(i) + first_ + whole;
    const int64_t row = shape_.middle * shape_.inner;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        float& moment = moments_[i][static_cast<size_t>(part + r * cols + c)];
        moment = moment * 0.9F + static_cast<float>(sums[r * cols + c]);
        results[r * cols + c] = T(static_cast<float>(before[r * row + c]) - 0.1F * moment);
      }
  }

  std::vector<float> result() const {
    std::vector<float> all;
    for (size_t i = 0; i < at_.size(); ++i) {
      for (int64_t e = 0; e < shape_.whole(); ++e) all.push_back(static_cast<float>(parameter(i)[e]));
      all.insert(all.end(), moments_[i].begin(), moments_[i].end());
    }
    return all;
  }

  Rank& rank_;
  const Group& group_;
  Type type_;
  Shape shape_;
  std::vector<int64_t> begin_;
  int64_t row_ = 0, first_ = 0;
  std::vector<T> own_;
  std::vector<T*> at_;
  std::vector<std::vector<float>> moments_;
};

template <class T>
void compare_updates(Rank& rank, Type type) {
  struct {
    Shape shape;
    size_t values;
  } const cases[] = {{{1, 200'001, 1}, 1}, {{7, 50, 3}, 2}, {{20, 9, 1'100}, 1}, {{40, 1, 5}, 1}, {{1, 2, 3}, 70}};
  for (const auto& [shape, values] : cases)
    for (const bool in_arena : {true, false}) {
      UpdatedCase<T> one(rank, type, shape, in_arena, values);
      const std::vector<float> expected = one.one_after_the_other();
      for (const bool alone : {false, true})
        if (one.in_one_pass(alone) != expected)
          throw std::runtime_error(fmt::format("{} x {} x {} of {}{}{}", shape.outer, shape.middle, shape.inner,
                                               name_of(type), in_arena ? "" : ", outside the arena",
                                               alone ? ", of sums made before" : ""));
    }
}

}  // namespace

void run_one_pass(Rank& rank) {
  rank.allocate(size_t{8} << 20, 4096);
  for (const int count : {1, 3}) {
    const Threads threads(count);
    compare_updates<float>(rank, Type::f32);
    compare_updates<double>(rank, Type::f64);
    compare_updates<Bfloat16>(rank, Type::bf16);
  }
}

}  // namespace meshrt::test
