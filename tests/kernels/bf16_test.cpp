// bf16: rounding against arithmetic in f64; products against those of the same numbers in f32.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/gemm_kernel.h"
#include "meshrt/bfloat16.h"
#include "meshrt/gemm.h"
#include "variants.h"

namespace meshrt {
namespace {

float from_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

// To the nearest of the numbers with 8 bits of mantissa, whose steps below 2^-126 are 2^-133; ties to even.
double rounded(float x) {
  if (!std::isfinite(x) || x == 0) return x;
  const int step = std::max(std::ilogb(x), -126) - 7;
  const double nearest = std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(x), -step)), step);
  return std::abs(nearest) >= 0x1p128 ? std::copysign(std::numeric_limits<double>::infinity(), nearest) : nearest;
}

void check_rounding(float x) {
  const auto got = static_cast<float>(Bfloat16(x));
  if (std::isnan(x)) {
    ASSERT_TRUE(std::isnan(got));
  } else {
    ASSERT_EQ(static_cast<double>(got), rounded(x)) << std::bit_cast<uint32_t>(x);
    ASSERT_EQ(std::signbit(got), std::signbit(x));
  }
}

TEST(Bfloat16, EveryNumberStaysItself) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float x = from_bits(bits << 16);
    const Bfloat16 again(x);
    if (std::isnan(x)) ASSERT_TRUE(std::isnan(static_cast<float>(again)));
    else ASSERT_EQ(again.bits, bits);
  }
}

TEST(Bfloat16, RoundsToTheNearestTiesToEven) {
  for (uint32_t upper = 0; upper < 65536; ++upper)
    for (const uint32_t lower : {0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      check_rounding(from_bits(upper << 16 | lower));
      if (HasFatalFailure()) return;
    }
  std::mt19937 random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    check_rounding(from_bits(random()));
    if (HasFatalFailure()) return;
  }
}

// Of every 16 bits that a draw may have, a number goes up with as many as it has below its last place in bf16.
TEST(Bfloat16, RoundsByChanceToOneOfTwoNeighboursAndToItselfOnAverage) {
  for (const float x : {1.0F, -1.0F, 0.1F, -3.14159F, 1e-30F, 5e-41F, 0x1.fffffep0F, 0x1.02p0F, 0.0F, -0.0F}) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    const float near = from_bits(bits & 0xffff0000), far = from_bits((bits & 0xffff0000) + 0x10000);
    uint32_t gone_far = 0;
    for (uint32_t draw = 0; draw < 65536; ++draw) {
      const float rounded = round_bf16(x, static_cast<float>(draw) * 0x1p-16F);
      ASSERT_TRUE(rounded == near || rounded == far) << x << " to " << rounded;
      gone_far += rounded == far && near != far;
    }
    EXPECT_EQ(gone_far, bits & 0xffff) << x;
    const double mean = near + (static_cast<double>(far) - near) * gone_far / 65536;
    EXPECT_EQ(mean, static_cast<double>(x));
    EXPECT_EQ(std::signbit(round_bf16(x, 0.999F)), std::signbit(x));
  }
}

TEST(Bfloat16, ByChanceWhatIsBf16InfiniteOrNotANumberStays) {
  for (uint32_t upper = 0; upper < 65536; ++upper) {
    const float x = from_bits(upper << 16);
    for (const float u : {0.0F, 0.5F, 0x1.fffffep-1F}) {
      const float rounded = round_bf16(x, u);
      if (std::isnan(x)) ASSERT_TRUE(std::isnan(rounded));
      else ASSERT_EQ(std::bit_cast<uint32_t>(rounded), upper << 16);
    }
  }
  EXPECT_TRUE(std::isnan(round_bf16(from_bits(0x7f800001), 0)));  // whose upper half alone would be infinity
}

using Narrow = Product<float, Bfloat16>;
using NarrowKernel = void (*)(const Narrow&);
using NarrowLeft = Product<float, Bfloat16, float>;
using NarrowRight = Product<float, float, Bfloat16>;

// A product of bf16 and the same of f32, of which the other operand may be any f32.
class BothProducts {
 public:
  explicit BothProducts(uint64_t seed) : random_(seed) {}

  void make(int64_t rows, int64_t cols, int64_t inner) {
    narrow = {};
    narrow.rows = rows, narrow.cols = cols, narrow.inner = inner;
    strides(rows, inner, narrow.a_row, narrow.a_col);
    strides(inner, cols, narrow.b_row, narrow.b_col);
    narrow.c_row = cols;
    fill(a_, wide_a_, any_a_, rows * narrow.a_row + inner * narrow.a_col + 1);
    fill(b_, wide_b_, any_b_, inner * narrow.b_row + cols * narrow.b_col + 1);
    const auto n = static_cast<size_t>(rows * cols);
    c_.resize(n), plus_.resize(n), bias_.resize(static_cast<size_t>(cols));
    for (std::vector<float>* numbers : {&c_, &plus_, &bias_})
      for (float& x : *numbers) x = normal_(random_);
    narrow.a = a_.data(), narrow.b = b_.data();
    narrow.accumulate = below(2);
    if (below(2)) narrow.epilogue = {.bias = bias_.data(), .activation = Activation::gelu, .plus = plus_.data()};
    wants_sum = below(3) == 0;
  }

  template <class A, class B>
  Product<float, A, B> with(const std::vector<A>& a, const std::vector<B>& b) const {
    Product<float, A, B> p;
    p.rows = narrow.rows, p.cols = narrow.cols, p.inner = narrow.inner;
    p.a = a.data(), p.a_row = narrow.a_row, p.a_col = narrow.a_col;
    p.b = b.data(), p.b_row = narrow.b_row, p.b_col = narrow.b_col;
    p.c_row = narrow.c_row, p.accumulate = narrow.accumulate, p.epilogue = narrow.epilogue;
    return p;
  }
  Product<float> wide() const { return with(wide_a_, wide_b_); }
  NarrowLeft narrow_left() const { return with(a_, any_b_); }
  Product<float> wide_left() const { return with(wide_a_, any_b_); }
  NarrowRight narrow_right() const { return with(any_a_, b_); }
  Product<float> wide_right() const { return with(any_a_, wide_b_); }

  // The result, then the sums of columns.
  template <class P, class Multiply>
  std::vector<float> run(P p, Multiply multiply) const {
    std::vector<float> c = c_, sum(bias_);
    p.c = c.data();
    p.column_sum = wants_sum ? sum.data() : nullptr;
    multiply(p);
    c.insert(c.end(), sum.begin(), sum.end());
    return c;
  }

  // The sum of absolute products that an element of the result adds up.
  double magnitude(int64_t i, int64_t j) const {
    const Product<float> p = wide();
    double sum = p.accumulate ? std::abs(c_[static_cast<size_t>(i * p.c_row + j)]) : 0;
    for (int64_t k = 0; k < p.inner; ++k)
      sum += std::abs(static_cast<double>(p.a[i * p.a_row + k * p.a_col]) * p.b[k * p.b_row + j * p.b_col]);
    return sum;
  }

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  Narrow narrow;
  bool wants_sum = false;

 private:
  void strides(int64_t n, int64_t m, int64_t& row, int64_t& col) {
    switch (below(3)) {
      case 0: col = 1, row = m + below(3); break;
      case 1: row = 1, col = n + below(3); break;
      default: col = 1 + below(3), row = col * m + below(3); break;
    }
  }
  void fill(std::vector<Bfloat16>& narrow, std::vector<float>& wide, std::vector<float>& any, int64_t n) {
    narrow.clear(), wide.clear(), any.clear();
    for (int64_t i = 0; i < n; ++i) {
      any.push_back(normal_(random_));
      narrow.emplace_back(any.back());
      wide.push_back(static_cast<float>(narrow.back()));
    }
  }

  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
  std::vector<Bfloat16> a_, b_;
  std::vector<float> wide_a_, wide_b_, any_a_, any_b_, c_, plus_, bias_;
};

template <class Check>
void for_shapes(BothProducts& both, Check check) {
  for (int64_t n = 0; n <= 40; n += 1 + both.below(3))
    for (int64_t other = 0; other <= 40; other += 1 + both.below(4)) {
      both.make(n, other, both.below(41));
      check();
      both.make(other, both.below(41), n);
      check();
      if (testing::Test::HasFatalFailure()) return;
    }
  // The later ones of few rows, of which b is read where it lies, in pieces of several rows and columns.
  const int64_t extents[][3] = {{17, 300, 1100}, {130, 37, 1030}, {9, 129, 2001}, {1, 700, 513},  {600, 3, 515},
                                {1, 5003, 36},   {1, 333, 2048},  {2, 2500, 70},  {7, 1153, 300}, {8, 40, 601},
                                {16, 1153, 302}, {40, 2500, 70},  {24, 97, 64}};
  for (const auto& [rows, cols, inner] : extents)
    for (int repeat = 0; repeat < 6; ++repeat) {
      both.make(rows, cols, inner);
      check();
      if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(GemmOfBfloat16, WidenedIsTheProductOfTheSameNumbers) {
  BothProducts both(1);
  const auto all = variants<NarrowKernel>(MESHRT_VARIANTS(multiply<float, Bfloat16>));
  for_shapes(both, [&] {
    const std::vector<float> expected = both.run(both.wide(), portable::multiply<float, float>);
    for (const Variant<NarrowKernel>& variant : all)
      ASSERT_EQ(both.run(both.narrow, variant.run), expected) << variant.name;
  });
}

// Beside a number of f32, of which no bit is rounded away.
TEST(GemmOfBfloat16, OneOfThemWidenedIsTheProductOfTheSameNumbers) {
  BothProducts both(4);
  const auto left = variants<void (*)(const NarrowLeft&)>(MESHRT_VARIANTS(multiply<float, Bfloat16, float>));
  const auto right = variants<void (*)(const NarrowRight&)>(MESHRT_VARIANTS(multiply<float, float, Bfloat16>));
  for_shapes(both, [&] {
    const auto expect = [&](const auto& narrow, const Product<float>& wide, const auto& all) {
      const std::vector<float> expected = both.run(wide, portable::multiply<float, float>);
      for (const auto& variant : all)
        ASSERT_EQ(both.run(narrow, variant.run), expected)
            << variant.name << ": " << wide.rows << " x " << wide.inner << " x " << wide.cols;
    };
    expect(both.narrow_left(), both.wide_left(), left);
    expect(both.narrow_right(), both.wide_right(), right);
  });
}

#if defined(__x86_64__)
TEST(GemmOfBfloat16, PairsAreWithinTheRoundingOfTheSum) {
  if (instruction_set() < InstructionSet::avx512_bf16) GTEST_SKIP() << "this CPU has no vdpbf16ps";
  BothProducts both(2);
  for_shapes(both, [&] {
    both.narrow.epilogue = {};
    const Narrow& p = both.narrow;
    const std::vector<float> expected = both.run(both.wide(), portable::multiply<float, float>),
                             got = both.run(p, avx512_bf16::multiply<float, Bfloat16>);
    for (int64_t i = 0; i < p.rows; ++i)
      for (int64_t j = 0; j < p.cols; ++j) {
        const auto at = static_cast<size_t>(i * p.c_row + j);
        ASSERT_NEAR(got[at], expected[at], 0x1p-23 * std::sqrt(static_cast<double>(p.inner + 4)) * both.magnitude(i, j))
            << p.rows << " x " << p.inner << " x " << p.cols;
      }
    for (size_t at = static_cast<size_t>(p.rows * p.cols); at < got.size(); ++at) ASSERT_EQ(got[at], expected[at]);
  });
}

TEST(GemmOfBfloat16, PairsDoNotDependOnHowRowsAndColumnsAreSplit) {
  if (instruction_set() < InstructionSet::avx512_bf16) GTEST_SKIP() << "this CPU has no vdpbf16ps";
  BothProducts both(3);
  for_shapes(both, [&] {
    both.wants_sum = false;
    const std::vector<float> whole = both.run(both.narrow, avx512_bf16::multiply<float, Bfloat16>);
    const std::vector<float> parts = both.run(both.narrow, [&](const Narrow& p) {
      const int64_t rows = p.rows / 3, cols = p.cols / 2;
      for (const auto& [i, n] : {std::pair{int64_t{0}, rows}, {rows, p.rows - rows}})
        for (const auto& [j, m] : {std::pair{int64_t{0}, cols}, {cols, p.cols - cols}}) {
          Narrow part = p;
          part.rows = n, part.cols = m;
          part.a += i * p.a_row, part.b += j * p.b_col, part.c += i * p.c_row + j;
          if (part.epilogue.bias) part.epilogue.bias += j;
          if (part.epilogue.plus) part.epilogue.plus += i * p.c_row + j;
          avx512_bf16::multiply<float, Bfloat16>(part);
        }
    });
    ASSERT_EQ(parts, whole);
  });
}
#endif

}  // namespace
}  // namespace meshrt
