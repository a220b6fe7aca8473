// Products against a chain of fused multiply-adds written as a triple loop: not one bit may differ, in any variant.
#include "meshrt/gemm.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/gemm_kernel.h"
#include "kernels/instruction_set.h"
#include "kernels/large_cache.h"
#include "kernels/product_choice.h"
#include "meshrt/activation.h"
#include "meshrt/lanes.h"
#include "meshrt/math.h"
#include "meshrt/threads.h"
#include "variants.h"

namespace meshrt {
namespace {

template <class T>
using Kernel = void (*)(const Product<T>&);
template <class T>
std::vector<Variant<Kernel<T>>> all_variants() {
  return variants<Kernel<T>>(MESHRT_VARIANTS(multiply<T>));
}

template <class T>
T activate(Activation activation, T x) {
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return relu(x);
    case Activation::gelu: return gelu(x);
    case Activation::gelu_tanh: return gelu_tanh(x);
    case Activation::silu: return silu(x);
  }
  return x;
}
template <class T>
T slope_of(Activation activation, T x) {
  switch (activation) {
    case Activation::none: return 1;
    case Activation::relu: return x > 0 ? 1 : 0;
    case Activation::gelu: return gelu_slope(x);
    case Activation::gelu_tanh: return gelu_tanh_slope(x);
    case Activation::silu: return silu_slope(x);
  }
  return 1;
}

template <class T>
void naive(const Product<T>& p) {
  for (int64_t i = 0; i < p.rows; ++i)
    for (int64_t j = 0; j < p.cols; ++j) {
      const int64_t at = i * p.c_row + j;
      T c = p.accumulate ? p.c[at] : T(0);
      for (int64_t k = 0; k < p.inner; ++k)
        c = std::fma(p.a[i * p.a_row + k * p.a_col], p.b[k * p.b_row + j * p.b_col], c);
      const Epilogue<T>& f = p.epilogue;
      c *= f.scale;
      if (f.bias) c += f.bias[j];
      if (f.slope) f.slope[at] = slope_of(f.activation, c);
      c = activate(f.activation, c);
      if (f.times) c *= f.times[at];
      if (f.plus) c += f.plus[at];
      p.c[at] = c;
      if (f.rounded) f.rounded[at] = Bfloat16(static_cast<float>(c));
    }
  if (!p.column_sum) return;
  for (int64_t j = 0; j < p.cols; ++j) {
    const T sum = sum_of<T>(p.inner, [&](int64_t k) { return p.b[k * p.b_row + j * p.b_col]; });
    p.column_sum[j] = p.accumulate ? p.column_sum[j] + sum : sum;
  }
}

template <class T>
class Case {
 public:
  explicit Case(uint64_t seed) : random_(seed) {}

  // Random operands for the extents; how strides are drawn: 0 row-major, 1 transposed, 2 anything.
  void make(int64_t rows, int64_t cols, int64_t inner) {
    p_ = {};
    p_.rows = rows, p_.cols = cols, p_.inner = inner;
    strides(rows, inner, p_.a_row, p_.a_col);
    strides(inner, cols, p_.b_row, p_.b_col);
    p_.c_row = cols + below(3);
    const auto span = [](int64_t n, int64_t row, int64_t m, int64_t col) {
      return (n ? n - 1 : 0) * row + (m ? m - 1 : 0) * col + 1;
    };
    a_ = numbers(span(rows, p_.a_row, inner, p_.a_col));
    b_ = numbers(span(inner, p_.b_row, cols, p_.b_col));
    const int64_t n = span(rows, p_.c_row, cols, 1);
    c_ = numbers(n), times_ = numbers(n), plus_ = numbers(n), slope_ = numbers(n), bias_ = numbers(cols),
    sum_ = numbers(cols);
    p_.a = a_.data(), p_.b = b_.data();
    p_.accumulate = below(2);
    if (below(2)) {
      Epilogue<T>& f = p_.epilogue;
      if (below(2)) f.scale = T(0.37);
      if (below(2)) f.bias = bias_.data();
      f.activation = static_cast<Activation>(below(5));
      if (below(2)) f.times = times_.data();
      if (below(2)) f.plus = plus_.data();
      wants_slope_ = below(2);
    } else {
      wants_slope_ = false;
    }
    wants_sum_ = below(3) == 0, wants_rounded_ = below(3) == 0;
    rounded_alone_ = wants_rounded_ && below(2);
  }

  // Runs one implementation on copies; gives everything that it may write, and that somebody may read.
  template <class Multiply>
  std::vector<T> run(Multiply multiply) {
    std::vector<T> c = c_, slope = slope_, sum = sum_;
    std::vector<Bfloat16> rounded(c.size(), Bfloat16(0));
    Product<T> p = p_;
    p.c = c.data();
    p.epilogue.slope = wants_slope_ ? slope.data() : nullptr;
    p.epilogue.rounded = wants_rounded_ ? rounded.data() : nullptr;
    p.epilogue.rounded_alone = rounded_alone_;
    p.column_sum = wants_sum_ ? sum.data() : nullptr;
    multiply(p);
    if (rounded_alone_) c.clear();
    c.insert(c.end(), slope.begin(), slope.end());
    c.insert(c.end(), sum.begin(), sum.end());
    for (const Bfloat16 x : rounded) c.push_back(static_cast<T>(static_cast<float>(x)));
    return c;
  }

  // Whether its rows are not read where they lie.
  bool has_left_copied() const { return p_.a_col != 1; }

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  void check(const std::vector<Variant<Kernel<T>>>& all) {
    const std::vector<T> expected = run(naive<T>);
    for (const Variant<Kernel<T>>& variant : all) {
      const std::vector<T> got = run(variant.run);
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(got[i], expected[i]) << variant.name << " at " << i << ": rows " << p_.rows << " cols " << p_.cols
                                       << " inner " << p_.inner << " a " << p_.a_row << "," << p_.a_col << " b "
                                       << p_.b_row << "," << p_.b_col << " accumulate " << p_.accumulate;
    }
  }

 private:
  void strides(int64_t n, int64_t m, int64_t& row, int64_t& col) {
    switch (below(3)) {
      case 0: col = 1, row = m + below(3); break;
      case 1: row = 1, col = n + below(3); break;
      default: col = 1 + below(3), row = col * m + below(3); break;
    }
    if (below(20) == 0) row = 0;
  }
  std::vector<T> numbers(int64_t n) {
    std::normal_distribution<double> normal;
    std::vector<T> v(static_cast<size_t>(n));
    for (T& x : v) x = static_cast<T>(normal(random_));
    return v;
  }

  std::mt19937_64 random_;
  Product<T> p_;
  std::vector<T> a_, b_, c_, times_, plus_, slope_, bias_, sum_;
  bool wants_slope_ = false, wants_sum_ = false, wants_rounded_ = false, rounded_alone_ = false;
};

template <class T>
class Gemm : public testing::Test {};
using Numbers = testing::Types<float, double>;
TYPED_TEST_SUITE(Gemm, Numbers);

TYPED_TEST(Gemm, EveryEdgeIsTheChainOfFusedMultiplyAdds) {
  Case<TypeParam> c(1);
  const auto all = all_variants<TypeParam>();
  for (int64_t n = 0; n <= 40; ++n)
    for (int64_t other = 0; other <= 40; other += 1 + c.below(3)) {
      c.make(n, other, c.below(41));
      c.check(all);
      c.make(c.below(41), n, other);
      c.check(all);
      c.make(other, c.below(41), n);
      c.check(all);
      if (this->HasFatalFailure()) return;
    }
}

// In blocks for a small second-level cache, and for a large one.
TYPED_TEST(Gemm, BlocksOfEveryExtentJoin) {
  Case<TypeParam> c(2);
  const auto all = all_variants<TypeParam>();
  const int64_t extents[][3] = {{17, 300, 1100}, {530, 37, 520}, {9, 129, 2000}, {1, 700, 513},  {600, 3, 515},
                                {1030, 1, 40},   {64, 64, 16},   {11, 520, 400}, {13, 300, 2100}};
  const bool here = large_second_level_cache();
  for (const bool large : {false, true}) {
    suppose_second_level_cache(large);
    for (const auto& [rows, cols, inner] : extents)
      for (int repeat = 0; repeat < 3 && !this->HasFatalFailure(); ++repeat) {
        c.make(rows, cols, inner);
        c.check(all);
      }
  }
  suppose_second_level_cache(here);
}

// Of many long rows, fewer are copied at a time beside a small right operand.
TYPED_TEST(Gemm, FewOfManyRowsAtATime) {
  Case<TypeParam> c(6);
  const auto all = all_variants<TypeParam>();
  int checked = 0;
  for (int attempt = 0; attempt < 30 && checked < 2 && !this->HasFatalFailure(); ++attempt) {
    c.make(1330, 66, 400);
    if (!c.has_left_copied()) continue;
    c.check(all);
    ++checked;
  }
  EXPECT_EQ(checked, 2);
}

// Around whole panels and halves of them, and more rows than are copied at a time.
TYPED_TEST(Gemm, PanelsOfEveryWidth) {
  Case<TypeParam> c(5);
  const auto all = all_variants<TypeParam>();
  std::vector<std::array<int64_t, 3>> extents = {{2100, 80, 40}, {1027, 129, 33}};
  for (const int64_t cols : {47, 48, 49, 63, 64, 65, 80, 95, 96, 112, 127, 128, 129})
    for (const int64_t rows : {5, 6, 7, 19}) extents.push_back({rows, cols, 33 + rows});
  for (const auto& [rows, cols, inner] : extents)
    for (int repeat = 0; repeat < 6; ++repeat) {
      c.make(rows, cols, inner);
      c.check(all);
      if (this->HasFatalFailure()) return;
    }
}

// Of a result that no cache holds more is added up before it is stored: compared with the product of some columns.
TYPED_TEST(Gemm, ResultsThatNoCacheHolds) {
  using T = TypeParam;
  constexpr int64_t rows = 34, cols = 131'100;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> unit(-1, 1);
  auto fast = all_variants<T>();
  if (fast.size() > 1)
    fast.erase(fast.begin());  // without an instruction for it, a multiply-add takes a hundred times as long
  for (const int64_t inner : {516, 1040}) {
    std::vector<T> a(rows * inner), b(inner + cols), c(rows * cols), some(rows * cols);
    for (std::vector<T>* values : {&a, &b, &c})
      for (T& x : *values) x = T(unit(random));
    Product<T> p;
    p.rows = rows, p.cols = cols, p.inner = inner, p.accumulate = true;
    p.a = a.data(), p.a_row = inner;
    p.b = b.data(), p.b_row = 1;  // each row is the last one, moved on
    p.c_row = cols;
    for (const auto& [name, multiply] : fast) {
      std::vector<T> whole = c;
      p.c = whole.data();
      multiply(p);
      for (const int64_t first : {int64_t{0}, int64_t{65'500}, cols - 70}) {
        Product<T> part = p;
        part.cols = 70, part.b += first, part.c = (some = c).data() + first;
        naive(part);
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = first; j < first + part.cols; ++j)
            ASSERT_EQ(whole[i * cols + j], some[i * cols + j]) << name << ", row " << i << ", column " << j;
      }
    }
  }
}

// Read in pieces: several of rows and of columns, the last of each smaller.
TYPED_TEST(Gemm, FewRowsAreReadWhereTheyLie) {
  Case<TypeParam> c(3);
  const auto all = all_variants<TypeParam>();
  const int64_t extents[][2] = {{2500, 70}, {1153, 300}, {40, 600}, {33, 17}, {5003, 35}};
  for (int64_t rows = 1; rows <= 17; ++rows)
    for (const auto& [cols, inner] : extents)
      for (int repeat = 0; repeat < 4; ++repeat) {
        c.make(rows, cols, inner);
        c.check(all);
        if (this->HasFatalFailure()) return;
      }
}

// However a product is cut for threads, and whether or not its pieces have its sums of columns.
TYPED_TEST(Gemm, ThreadsGiveTheSameBits) {
  if (fastest<TypeParam>(instruction_set(), ProductClass::matrix) != Implementation::own)
    GTEST_SKIP() << "another library multiplies on this processor";
  Case<TypeParam> c(6);
  const std::vector<Variant<Kernel<TypeParam>>> of_rank = {{"on threads", multiply<TypeParam>}};
  const int64_t extents[][3] = {{530, 384, 64}, {97, 1153, 40}, {4, 3000, 100}, {3000, 4, 100}, {2000, 17, 60}};
  for (int count = 2; count <= 5; ++count) {
    const Threads threads(count);
    for (const auto& [rows, cols, inner] : extents)
      for (int repeat = 0; repeat < 2; ++repeat) {
        c.make(rows, cols, inner);
        c.check(of_rank);
        if (this->HasFatalFailure()) return;
      }
  }
}

TYPED_TEST(Gemm, BatchMovesEveryOperand) {
  using T = TypeParam;
  // c[x, y, i, j] = sum over k of a[x, i, k] b[y, k, j] + bias[y, j]
  constexpr int64_t xs = 3, ys = 2, rows = 5, cols = 7, inner = 4;
  std::vector<T> a(xs * rows * inner), b(ys * inner * cols), bias(ys * cols), sum(ys * cols), c(xs * ys * rows * cols);
  for (size_t i = 0; i < a.size(); ++i) a[i] = T(i % 5) - 2;
  for (size_t i = 0; i < b.size(); ++i) b[i] = T(i % 7) - 3;
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = T(i);
  Product<T> p;
  p.rows = rows, p.cols = cols, p.inner = inner;
  p.a = a.data(), p.a_row = inner, p.b = b.data(), p.b_row = cols, p.c = c.data(), p.c_row = cols;
  p.epilogue.bias = bias.data(), p.column_sum = sum.data();
  const Batch loops[] = {
      {.count = xs, .a_stride = rows * inner, .c_stride = ys * rows * cols},
      {.count = ys, .b_stride = inner * cols, .c_stride = rows * cols, .bias_stride = cols, .sum_stride = cols}};
  multiply_batch<T>(p, loops);
  for (int64_t x = 0; x < xs; ++x)
    for (int64_t y = 0; y < ys; ++y)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) {
          T want = bias[y * cols + j], column = 0;
          for (int64_t k = 0; k < inner; ++k) {
            want += a[(x * rows + i) * inner + k] * b[(y * inner + k) * cols + j];
            column += b[(y * inner + k) * cols + j];
          }
          ASSERT_EQ(c[((x * ys + y) * rows + i) * cols + j], want);
          ASSERT_EQ(sum[y * cols + j], column);
        }
}

}  // namespace
}  // namespace meshrt
