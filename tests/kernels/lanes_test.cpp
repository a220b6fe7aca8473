// Reductions: one order, whoever does them.
#include "meshrt/lanes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace meshrt {
namespace {

template <class T>
std::vector<T> numbers(int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v) x = static_cast<T>(normal(random));
  return v;
}

// The definition, word for word.
template <class T>
T defined_sum(const std::vector<T>& x) {
  T lane[16] = {};
  for (size_t i = 0; i < x.size(); ++i) lane[i % 16] += x[i];
  for (int step : {8, 4, 2, 1})
    for (int l = 0; l < step; ++l) lane[l] += lane[l + step];
  return lane[0];
}

template <class T>
class LanesOf : public testing::Test {};
using Numbers = testing::Types<float, double>;
TYPED_TEST_SUITE(LanesOf, Numbers);

TYPED_TEST(LanesOf, SumIsTheDefinition) {
  using T = TypeParam;
  for (int64_t n = 0; n < 100; ++n) {
    const std::vector<T> x = numbers<T>(n, n);
    EXPECT_EQ(sum_of<T>(n, [&](int64_t i) { return x[i]; }), defined_sum(x)) << n;
  }
}

TYPED_TEST(LanesOf, ChunksGiveTheBitsOfTheWhole) {
  using T = TypeParam;
  std::mt19937_64 random(5);
  for (int64_t n : {1, 15, 16, 17, 100, 1000}) {
    const std::vector<T> x = numbers<T>(n, n);
    Lanes<T> sum;
    Lanes<T, Reduce::max> largest;
    Lanes<T, Reduce::min> smallest;
    for (int64_t at = 0; at < n;) {
      const int64_t here = std::min<int64_t>(n - at, 1 + static_cast<int64_t>(random() % 37));
      accumulate(sum.lane, &x[at], here, at);
      accumulate<Reduce::max>(largest.lane, &x[at], here, at);
      accumulate<Reduce::min>(smallest.lane, &x[at], here, at);
      at += here;
    }
    const auto f = [&](int64_t i) { return x[i]; };
    EXPECT_EQ(sum.combine(), sum_of<T>(n, f));
    EXPECT_EQ(largest.combine(), max_of<T>(n, f));
    EXPECT_EQ(smallest.combine(), min_of<T>(n, f));
  }
}

TYPED_TEST(LanesOf, OuterExtentsFollowOneAnother) {
  using T = TypeParam;
  constexpr int64_t rows = 7, cols = 21;
  const std::vector<T> x = numbers<T>(rows * cols, 9);
  Lanes<T> whole, single;
  for (int64_t r = 0; r < rows; ++r) {
    whole.add(cols, [&](int64_t c) { return x[r * cols + c]; });
    for (int64_t c = 0; c < cols; ++c) single.add_one(c, x[r * cols + c]);
  }
  EXPECT_EQ(whole.combine(), single.combine());
}

TYPED_TEST(LanesOf, RowsReduceLikeColumns) {
  using T = TypeParam;
  for (int64_t rows : {0, 1, 16, 37})
    for (int64_t cols : {1, 15, 40}) {
      const std::vector<T> x = numbers<T>(rows * cols, 3);
      std::vector<T> got(static_cast<size_t>(cols));
      reduce_rows<T>(
          rows, cols, [&](int64_t r, int64_t c) { return x[r * cols + c]; }, [&](int64_t c, T v) { got[c] = v; });
      for (int64_t c = 0; c < cols; ++c) EXPECT_EQ(got[c], sum_of<T>(rows, [&](int64_t r) { return x[r * cols + c]; }));
    }
}

TYPED_TEST(LanesOf, EmptyAndNaN) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const auto none = [](int64_t) { return T(0); };
  EXPECT_EQ(sum_of<T>(0, none), T(0));
  EXPECT_EQ(max_of<T>(0, none), -inf);
  EXPECT_EQ(min_of<T>(0, none), inf);
  EXPECT_EQ(argmax_of<T>(0, none), 0);
  const std::vector<T> x = {1, nan, 3, nan};
  const auto f = [&](int64_t i) { return x[i]; };
  EXPECT_TRUE(std::isnan(sum_of<T>(4, f)));
  EXPECT_EQ(max_of<T>(4, f), T(3));
  EXPECT_EQ(argmax_of<T>(4, f), 2);
}

TYPED_TEST(LanesOf, ArgmaxTakesTheSmallestIndex) {
  using T = TypeParam;
  std::mt19937_64 random(11);
  for (int64_t n = 1; n < 200; ++n) {
    std::vector<T> x(static_cast<size_t>(n));
    for (T& v : x) v = static_cast<T>(random() % 5);
    const int64_t want = std::max_element(x.begin(), x.end()) - x.begin();
    EXPECT_EQ(argmax_of<T>(n, [&](int64_t i) { return x[i]; }), want) << n;
  }
  const T hidden = -std::numeric_limits<T>::infinity();
  EXPECT_EQ(argmax_of<T>(40, [&](int64_t) { return hidden; }), 0);
}

}  // namespace
}  // namespace meshrt
