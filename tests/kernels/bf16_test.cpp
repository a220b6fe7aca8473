// bf16: rounding against arithmetic in f64; products by pairs against those of the same numbers in f32.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "kernels/gemm_kernel.h"
#include "kernels/instruction_set.h"
#include "meshrt/bfloat16.h"
#include "narrow_products.h"

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

#if defined(__x86_64__)
using OfBfloat16 = Product<float, Bfloat16>;

TEST(GemmOfBfloat16, PairsAreWithinTheRoundingOfTheSum) {
  if (supported_instruction_set() < InstructionSet::avx512_bf16) GTEST_SKIP() << "this CPU has no vdpbf16ps";
  BothProducts<Bfloat16> both(2);
  for_shapes(both, [&] {
    both.narrow.epilogue = {};
    both.wants_rounded = false;
    const OfBfloat16& p = both.narrow;
    const std::vector<float> expected = both.run(both.wide(), portable::multiply<float, float>),
                             got = both.run(p, avx512_bf16::multiply<float, Bfloat16>);
    const Product<float> wide = both.wide();
    const double last_places = 0x1p-23 * std::sqrt(static_cast<double>(p.inner + 4));
    for (int64_t i = 0; i < p.rows; ++i) {
      const auto sums = both.exact(wide, i);
      for (int64_t j = 0; j < p.cols; ++j) {
        const auto at = static_cast<size_t>(i * p.c_row + j);
        ASSERT_NEAR(got[at], expected[at], last_places * sums[static_cast<size_t>(j)].magnitude)
            << p.rows << " x " << p.inner << " x " << p.cols;
      }
    }
    for (size_t at = static_cast<size_t>(p.rows * p.cols); at < got.size(); ++at) ASSERT_EQ(got[at], expected[at]);
  });
}

TEST(GemmOfBfloat16, PairsOfWhatIsRoundedAsItIsRead) {
  if (supported_instruction_set() < InstructionSet::avx512_bf16) GTEST_SKIP() << "this CPU has no vdpbf16ps";
  BothProducts<Bfloat16> both(7);
  for_shapes(both, [&] {
    const std::vector<float> expected = both.run(both.narrow, avx512_bf16::multiply<float, Bfloat16>);
    ASSERT_EQ(both.run(both.rounded_right(), avx512_bf16::multiply<float, Bfloat16, AsBfloat16>), expected)
        << both.narrow.rows << " x " << both.narrow.inner << " x " << both.narrow.cols;
  });
}

// The smallest numbers, which the CPU's instruction for rounding takes as 0, and which may round to one that has a
// whole mantissa; and those that are none.
TEST(GemmOfBfloat16, PairsOfTheSmallestNumbersAreRoundedAsAllOthers) {
  if (supported_instruction_set() < InstructionSet::avx512_bf16) GTEST_SKIP() << "this CPU has no vdpbf16ps";
  constexpr int64_t rows = 20, inner = 48, cols = 64;
  const float largest = from_bits(0x007fffff), nan = from_bits(0x7fffffff);
  for (const bool transposed : {false, true})
    for (const float x : {largest, from_bits(0x00400000), nan, from_bits(0x7f7fffff), from_bits(0x80000001)}) {
      std::vector<Bfloat16> a(rows * inner, Bfloat16(0x1p100F)), b(inner * cols, Bfloat16(0));
      std::vector<AsBfloat16> unrounded(inner * cols, {0});
      for (size_t i = 0; i < b.size(); i += 5) b[i] = Bfloat16(x), unrounded[i] = {x};
      std::vector<float> c(rows * cols), expected(rows * cols);
      OfBfloat16 p;
      p.rows = rows, p.inner = inner, p.cols = cols, p.c_row = cols;
      p.a = a.data(), p.a_row = inner, p.b = b.data(), p.c = expected.data();
      p.b_row = transposed ? 1 : cols, p.b_col = transposed ? inner : 1;
      avx512_bf16::multiply<float, Bfloat16>(p);
      Product<float, Bfloat16, AsBfloat16> q;
      q.rows = rows, q.inner = inner, q.cols = cols, q.c_row = cols;
      q.a = a.data(), q.a_row = inner, q.b = unrounded.data(), q.c = c.data();
      q.b_row = p.b_row, q.b_col = p.b_col;
      avx512_bf16::multiply<float, Bfloat16, AsBfloat16>(q);
      for (size_t i = 0; i < c.size(); ++i)
        ASSERT_EQ(std::bit_cast<uint32_t>(c[i]), std::bit_cast<uint32_t>(expected[i])) << x << " at " << i;
    }
}

TEST(GemmOfBfloat16, PairsDoNotDependOnHowRowsAndColumnsAreSplit) {
  if (supported_instruction_set() < InstructionSet::avx512_bf16) GTEST_SKIP() << "this CPU has no vdpbf16ps";
  BothProducts<Bfloat16> both(3);
  for_shapes(both, [&] {
    both.wants_sum = false;
    const std::vector<float> whole = both.run(both.narrow, avx512_bf16::multiply<float, Bfloat16>);
    const std::vector<float> parts = both.run(both.narrow, [&](const OfBfloat16& p) {
      const int64_t rows = p.rows / 3, cols = p.cols / 2;
      for (const auto& [i, n] : {std::pair{int64_t{0}, rows}, {rows, p.rows - rows}})
        for (const auto& [j, m] : {std::pair{int64_t{0}, cols}, {cols, p.cols - cols}}) {
          OfBfloat16 part = p;
          part.rows = n, part.cols = m;
          part.a += i * p.a_row, part.b += j * p.b_col, part.c += i * p.c_row + j;
          if (part.epilogue.bias) part.epilogue.bias += j;
          if (part.epilogue.plus) part.epilogue.plus += i * p.c_row + j;
          if (part.epilogue.rounded) part.epilogue.rounded += i * p.c_row + j;
          avx512_bf16::multiply<float, Bfloat16>(part);
        }
    });
    ASSERT_EQ(parts, whole);
  });
}
#endif

}  // namespace
}  // namespace meshrt
