// f16: rounding against the compiler's own type and arithmetic in f64.
#include "meshrt/float16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace meshrt {
namespace {

#if defined(__aarch64__)
using OfCompiler = __fp16;  // gcc 12 has no other there
#else
using OfCompiler = _Float16;
#endif

float number_of_f16(uint32_t bits) {
  return static_cast<float>(std::bit_cast<OfCompiler>(static_cast<uint16_t>(bits)));
}

/// By vectors, as in programs.
[[gnu::optimize("O3")]] void round_all(const float* __restrict from, Float16* __restrict to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = Float16(from[i]);
}

void expect_compilers_rounding(const std::vector<float>& numbers) {
  std::vector<Float16> rounded(numbers.size());
  round_all(numbers.data(), rounded.data(), numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto expected = std::bit_cast<uint16_t>(static_cast<OfCompiler>(numbers[i]));
    if (std::isnan(numbers[i])) ASSERT_TRUE(std::isnan(static_cast<float>(rounded[i])));
    else ASSERT_EQ(rounded[i].bits, expected) << std::bit_cast<uint32_t>(numbers[i]);
  }
}

TEST(Float16, EveryNumberIsExactInF32AndComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto x = static_cast<float>(std::bit_cast<Float16>(static_cast<uint16_t>(bits)));
    const float expected = number_of_f16(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(x) && std::isnan(static_cast<float>(Float16(x))));
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(x), std::bit_cast<uint32_t>(expected)) << bits;
      ASSERT_EQ(Float16(x).bits, bits);
    }
  }
}

TEST(Float16, RoundsToTheNearestTiesToEven) {
  std::vector<float> numbers;
  // Each number, the middle between it and the next one (above the largest: 65520), and what lies beside these.
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const bool is_largest = (bits & 0x7fff) == 0x7bff;
    const float x = number_of_f16(bits), next = is_largest ? std::copysign(65536.0F, x) : number_of_f16(bits + 1);
    for (const float at : {x, (x + next) / 2})
      for (int32_t beside = -2; beside <= 2; ++beside)
        numbers.push_back(std::bit_cast<float>(std::bit_cast<uint32_t>(at) + static_cast<uint32_t>(beside)));
  }
  std::mt19937 random(1);
  for (int i = 0; i < 3'000'000; ++i) numbers.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  // Most of those lie beyond f16: so some whose exponents it has, or nearly.
  std::uniform_int_distribution<uint32_t> near(0x32000000, 0x48000000);
  for (int i = 0; i < 3'000'000; ++i) numbers.push_back(std::bit_cast<float>(near(random) | (i % 2 ? 0x80000000 : 0)));
  expect_compilers_rounding(numbers);
}

TEST(Float16, RoundsWhereTheCompilerDoesIt) {
  static_assert(Float16(1.0F).bits == 0x3c00 && Float16(0x1p-25F).bits == 0 && Float16(0x1.8p-25F).bits == 1);
  static_assert(Float16(-1e30F).bits == 0xfc00 && static_cast<float>(Float16(0x1.8p-24F)) == 0x1p-23F);
}

/// The last place in f16 of a number of this size.
double last_place(float x) { return std::ldexp(1.0, std::max(std::ilogb(x), -14) - 10); }

// Of 2^16 draws a number goes up with as many as it is parts of its last place in f16 away from the lower neighbour.
TEST(Float16, RoundsByChanceToOneOfTwoNeighboursAndToItselfOnAverage) {
  constexpr int draws = 65536;
  for (const float x :
       {1.0F, -1.0F, 0.1F, -3.14159F, 1000.3F, 0x1.fffffep0F, 0x1.004p0F, 0x1.0002p-14F, 0x1.fffep-15F, -0x1.23456p-17F,
        0x1.8p-24F, 0x1p-25F, 0x1.9p-30F, 0x1p-39F, 60000.1F, -65503.9F, 0.0F, -0.0F}) {
    const double step = x == 0 ? 0x1p-24 : last_place(x), steps = std::abs(x) / step, below = std::floor(steps);
    const auto near = static_cast<float>(std::copysign(below * step, x)),
               far = static_cast<float>(std::copysign((below + 1) * step, x));
    int gone_far = 0;
    for (int draw = 0; draw < draws; ++draw) {
      const float rounded = round_f16(x, static_cast<float>(draw) * 0x1p-16F);
      ASSERT_TRUE(rounded == near || rounded == far) << x << " to " << rounded;
      ASSERT_EQ(std::signbit(rounded), std::signbit(x));
      ASSERT_EQ(static_cast<float>(Float16(rounded)), rounded);
      gone_far += rounded == far;
    }
    EXPECT_EQ(gone_far, std::floor((steps - below) * draws)) << x;
  }
}

TEST(Float16, ByChanceWhatIsF16InfiniteOrNotANumberStays) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float x = number_of_f16(bits);
    for (const float u : {0.0F, 0.5F, 0x1.fffffep-1F}) {
      const float rounded = round_f16(x, u);
      if (std::isnan(x)) ASSERT_TRUE(std::isnan(rounded));
      else ASSERT_EQ(std::bit_cast<uint32_t>(rounded), std::bit_cast<uint32_t>(x));
    }
  }
}

TEST(Float16, ByChanceWhatIsTooLargeBecomesInfinity) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const float x : {65536.0F, 65537.0F, 1e30F, std::numeric_limits<float>::max()})
    for (const float u : {0.0F, 0.5F, 0x1.fffffep-1F}) {
      EXPECT_EQ(round_f16(x, u), infinity);
      EXPECT_EQ(round_f16(-x, u), -infinity);
    }
  EXPECT_EQ(round_f16(65520, 0.4F), 65504);
  EXPECT_EQ(round_f16(-65520, 0.5F), -infinity);
}

}  // namespace
}  // namespace meshrt
