// Products of bf16 and f16 that are widened to f32: against those of the same numbers in f32, and against f64.
#include "narrow_products.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/gemm_kernel.h"
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

// By what programs call. Run also where MESHRT_ISA_LEVEL asks for less than the CPU has.
TYPED_TEST(NarrowProduct, OfProgramsIsWithinTheRoundingOfTheSum) {
  typename TestFixture::Both both(5);
  for_shapes(both, [&] {
    both.narrow.epilogue = {};
    both.wants_sum = false;
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
