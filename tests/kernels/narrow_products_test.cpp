// Products of bf16 and f16 that are widened to f32: against those of the same numbers in f32, and against f64.
#include "narrow_products.h"

#include <gtest/gtest.h>

#include <random>
#include <span>
#include <vector>

#include "kernels/gemm_kernel.h"
#include "refused_onednn.h"
#include "variants.h"

namespace meshrt {
namespace {

template <class In>
class NarrowProduct : public testing::Test {
 protected:
  using Both = BothProducts<In>;
};
using NarrowNumbers = testing::Types<Bfloat16, Float16>;
TYPED_TEST_SUITE(NarrowProduct, NarrowNumbers);

TYPED_TEST(NarrowProduct, WidenedIsTheProductOfTheSameNumbers) {
  using Kernel = void (*)(const typename TestFixture::Both::OfNarrow&);
  typename TestFixture::Both both(1);
  const auto all = variants<Kernel>(MESHRT_VARIANTS(multiply<float, TypeParam>));
  for_shapes(both, [&] {
    const std::vector<float> expected = both.run(both.wide(), portable::multiply<float, float>);
    for (const Variant<Kernel>& variant : all) ASSERT_EQ(both.run(both.narrow, variant.run), expected) << variant.name;
  });
}

// Beside a number of f32, of which no bit is rounded away.
TYPED_TEST(NarrowProduct, OneOfThemWidenedIsTheProductOfTheSameNumbers) {
  using Both = typename TestFixture::Both;
  Both both(4);
  const auto left =
      variants<void (*)(const typename Both::NarrowLeft&)>(MESHRT_VARIANTS(multiply<float, TypeParam, float>));
  const auto right =
      variants<void (*)(const typename Both::NarrowRight&)>(MESHRT_VARIANTS(multiply<float, float, TypeParam>));
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

TEST(RoundedAsItIsRead, IsTheProductWithWhatItRoundsTo) {
  using Kernel = void (*)(const Product<float, Bfloat16, AsBfloat16>&);
  BothProducts<Bfloat16> both(6);
  const auto all = variants<Kernel>(MESHRT_VARIANTS(multiply<float, Bfloat16, AsBfloat16>));
  for_shapes(both, [&] {
    const std::vector<float> expected = both.run(both.narrow, portable::multiply<float, Bfloat16>);
    for (const Variant<Kernel>& variant : all)
      ASSERT_EQ(both.run(both.rounded_right(), variant.run), expected) << variant.name;
  });
}

// By what programs call: with a b of each turn, or one for all of them.
TEST(RoundedAsItIsRead, InTurnsToo) {
  constexpr int64_t turns = 3, rows = 40, inner = 70, cols = 50;
  std::mt19937_64 random(8);
  std::normal_distribution<float> number;
  std::vector<float> wide_a, wide_b;
  std::vector<Bfloat16> a;
  std::vector<AsBfloat16> b;
  for (int64_t i = 0; i < turns * rows * inner; ++i)
    a.emplace_back(number(random)), wide_a.push_back(static_cast<float>(a.back()));
  for (int64_t i = 0; i < turns * inner * cols; ++i)
    b.push_back({number(random)}), wide_b.push_back(static_cast<float>(b.back()));
  for (const int64_t b_stride : {int64_t{0}, inner * cols}) {
    const Batch loop[] = {{turns, rows * inner, b_stride, rows * cols}};
    std::vector<float> expected(turns * rows * cols), got(turns * rows * cols);
    const auto run = [&](auto p, const auto* left, const auto* right, std::vector<float>& c) {
      p.rows = rows, p.cols = cols, p.inner = inner, p.c_row = cols;
      p.a = left, p.a_row = inner, p.b = right, p.b_row = cols, p.c = c.data();
      multiply_batch(p, std::span(loop));
    };
    run(Product<float>(), wide_a.data(), wide_b.data(), expected);
    run(Product<float, Bfloat16, AsBfloat16>(), a.data(), b.data(), got);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4) << i << ", stride " << b_stride;
  }
}

// By what programs call. Run also where MESHRT_ISA_LEVEL asks for less than the CPU has.
TYPED_TEST(NarrowProduct, OfProgramsIsWithinTheRoundingOfTheSum) {
  typename TestFixture::Both both(5);
  if (std::is_same_v<TypeParam, Bfloat16> && is_refused_bf16([&] { multiply(both.narrow); })) return;
  for_shapes(both, [&] {
    both.narrow.epilogue = {};
    both.wants_sum = both.wants_rounded = false;
    const auto expect = [&](const auto& narrow, const Product<float>& wide) {
      const std::vector<float> got = both.run(narrow, [](const auto& p) { multiply(p); });
      both.expect_sums(wide, got);
    };
    expect(both.narrow, both.wide());
    expect(both.narrow_left(), both.wide_left());
    expect(both.narrow_right(), both.wide_right());
    if constexpr (std::is_same_v<TypeParam, Bfloat16>) expect(both.rounded_right(), both.wide());
  });
}

}  // namespace
}  // namespace meshrt
