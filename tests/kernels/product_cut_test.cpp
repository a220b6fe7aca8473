// How products are cut for threads: pieces make up the whole, and no thread has much more to do than the others.
#include "kernels/product_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace meshrt {
namespace {

/// The stretches of one side, which must follow one another from 0 to its size; the longest.
int64_t longest(int64_t size, int64_t parts, TileRange (*stretch_of)(int64_t, int64_t, int64_t)) {
  int64_t at = 0, most = 0;
  for (int64_t i = 0; i < parts; ++i) {
    const TileRange one = stretch_of(size, i, parts);
    EXPECT_EQ(one.begin, at);
    EXPECT_LT(one.begin, one.end);
    most = std::max(most, one.end - one.begin);
    at = one.end;
  }
  EXPECT_EQ(at, size);
  return most;
}

/// What the thread with the most has to multiply, over an equal share.
double excess(int64_t rows, int64_t cols, const ProductCut& cut, int threads) {
  const int64_t turns = (cut.pieces() + threads - 1) / threads;
  const int64_t most = turns * longest(rows, cut.rows, stretch_of_rows) * longest(cols, cut.cols, stretch_of_columns);
  return static_cast<double>(most * threads) / static_cast<double>(rows * cols);
}

TEST(ProductCut, GivesThreadsAsMuchToDo) {
  // Of a transformer and a perceptron: activations by weights, and the gradients of weights, which copy their left
  // side.
  const int64_t shapes[][2] = {{1024, 384}, {1024, 1152}, {1024, 1536}, {1024, 4096}, {384, 1536}, {1536, 384},
                               {384, 1152}, {384, 384},   {512, 4096},  {768, 3072},  {4096, 384}};
  for (const auto& [rows, cols] : shapes)
    for (const bool copies_left : {false, true})
      for (const int threads : {2, 3, 4, 6, 8}) {
        const ProductCut cut = cut_product(rows, cols, copies_left, threads);
        EXPECT_LE(cut.pieces(), 4 * threads);
        EXPECT_LT(excess(rows, cols, cut, threads), 1.27)
            << rows << " x " << cols << " on " << threads << " threads: " << cut.rows << " x " << cut.cols;
      }
}

TEST(ProductCut, LeavesSmallSidesWhole) {
  for (const int threads : {1, 2, 7, 16}) {
    EXPECT_EQ(cut_product(48, 127, false, threads).pieces(), 1);
    EXPECT_EQ(cut_product(16, 4096, false, threads).rows, 1);
    EXPECT_EQ(cut_product(4096, 16, true, threads).cols, 1);
  }
}

TEST(ProductCut, CopiesLittle) {
  // Of a tall product the rows are cut, of a wide one the columns.
  EXPECT_EQ(cut_product(1 << 16, 128, false, 4).cols, 1);
  EXPECT_EQ(cut_product(96, 1 << 16, false, 2).rows, 1);
}

}  // namespace
}  // namespace meshrt
