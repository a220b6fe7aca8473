// Products of bf16 by oneDNN, on whatever set of instructions it finds here: beside f64, and on several threads.
#include "kernels/product_onednn.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "meshrt/failure.h"
#include "meshrt/threads.h"
#include "narrow_products.h"

namespace meshrt {
namespace {

class ProductByOneDnn : public testing::Test {
 protected:
  void SetUp() override {
    try {
      dnn = &onednn();
      if (!multiplies_bf16(*dnn)) GTEST_SKIP() << dnn->name << " multiplies no bf16";
    } catch (const Failure& failure) {
      GTEST_SKIP() << failure.what();
    }
  }

  const OneDnn* dnn = nullptr;
};

TEST_F(ProductByOneDnn, IsWithinTheRoundingOfTheSumOrLeftToUs) {
  BothProducts<Bfloat16> both(6);
  int made = 0, left = 0;
  for_shapes(both, [&] {
    const Product<float, Bfloat16>& p = both.narrow;
    both.wants_rounded = false;  // what follows is left to others
    bool done = false;
    const std::vector<float> before = both.run(p, [](const auto&) {}),
                             got = both.run(p, [&](const auto&product) { done = multiply_onednn(*dnn, product); });
    const bool has_unit_strides = (p.a_row == 1 || p.a_col == 1) && (p.b_row == 1 || p.b_col == 1);
    ++(done ? made : left);
    if (!done) {
      ASSERT_EQ(got, before);
      return;
    }
    ASSERT_TRUE(has_unit_strides);
    both.expect_sums(both.wide(), got);
  });
  EXPECT_GT(made, 300);
  EXPECT_GT(left, 300);  // of those above five in nine have an operand without a unit stride
}

TEST_F(ProductByOneDnn, HasTheSameBitsOnSeveralThreads) {
  for (const auto& [rows, cols, inner] : std::vector<std::array<int64_t, 3>>{{700, 150, 96}, {257, 64, 40}}) {
    BothProducts<Bfloat16> both(7);
    both.make(rows, cols, inner);
    for (const bool a_turned : {false, true}) {
      Product<float, Bfloat16> p = both.narrow;
      p.a_row = a_turned ? 1 : inner, p.a_col = a_turned ? rows : 1, p.b_row = cols, p.b_col = 1;
      std::vector<float> first;
      for (const int count : {1, 2, 3, 4, 7}) {
        const Threads threads(count);
        const std::vector<float> now =
            both.run(p, [&](const auto& product) { ASSERT_TRUE(multiply_onednn(*dnn, product)); });
        if (first.empty()) first = now;
        EXPECT_EQ(now, first) << count << " threads";
      }
    }
  }
}

TEST_F(ProductByOneDnn, LeavesRowsThatOverlapToUs) {
  BothProducts<Bfloat16> both(8);
  both.make(64, 64, 64);
  Product<float, Bfloat16> p = both.narrow;
  p.a_row = 63, p.a_col = 1, p.b_row = 64, p.b_col = 1;
  both.run(p, [&](const auto& product) { EXPECT_FALSE(multiply_onednn(*dnn, product)); });
}

}  // namespace
}  // namespace meshrt
