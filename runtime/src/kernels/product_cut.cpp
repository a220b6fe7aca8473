#include "product_cut.h"

#include <algorithm>
#include <array>

namespace meshrt {
namespace {

constexpr int64_t tile_rows = 16, tile_cols = 64;     // where pieces may begin: a tile of every instruction set, nearly
constexpr int64_t least_rows = 48, least_cols = 128;  // of a piece: a few tiles, and as many columns as kernels copy

// What copying an element of either operand takes, in multiplications of the product.
constexpr int64_t copy_of_right = 16, copy_of_left = 24;

int64_t tiles(int64_t size, int64_t tile) { return (size + tile - 1) / tile; }

TileRange stretch(int64_t size, int64_t tile, int64_t i, int64_t parts) {
  const int64_t all = tiles(size, tile);
  return {std::min(size, all * i / parts * tile), std::min(size, all * (i + 1) / parts * tile)};
}

/// Of the thread that has the most, a multiplication of each element of `inner`.
int64_t cost(const ProductCut& cut, int64_t rows, int64_t cols, bool copies_left, int threads) {
  const int64_t high = std::min(rows, tiles(tiles(rows, tile_rows), cut.rows) * tile_rows);
  const int64_t wide = std::min(cols, tiles(tiles(cols, tile_cols), cut.cols) * tile_cols);
  const int64_t turns = (cut.pieces() + threads - 1) / threads;
  return turns * (high * wide + wide * copy_of_right + (copies_left ? high * copy_of_left : 0));
}

}  // namespace

ProductCut cut_product(int64_t rows, int64_t cols, bool copies_left, int threads) {
  constexpr int most_turns = 4;  // of pieces, of a thread
  std::array<ProductCut, most_turns> best;
  std::array<int64_t, most_turns> least;
  for (int turn = 0; turn < most_turns; ++turn) {
    const int64_t pieces = (turn + 1) * int64_t{threads};
    const int64_t most_rows = std::clamp<int64_t>(rows / least_rows, 1, pieces);
    const int64_t most_cols = std::clamp<int64_t>(cols / least_cols, 1, pieces);
    least[turn] = cost(best[turn], rows, cols, copies_left, threads);
    for (int64_t r = 1; r <= most_rows; ++r) {
      const ProductCut cut{r, std::min(most_cols, pieces / r)};
      const int64_t its = cost(cut, rows, cols, copies_left, threads);
      if (its < least[turn]) least[turn] = its, best[turn] = cut;
    }
  }
  const int64_t bound = *std::ranges::min_element(least) * 33 / 32;
  int chosen = most_turns - 1;
  while (least[chosen] > bound) --chosen;
  return best[chosen];
}

TileRange stretch_of_rows(int64_t rows, int64_t i, int64_t parts) { return stretch(rows, tile_rows, i, parts); }
TileRange stretch_of_columns(int64_t cols, int64_t i, int64_t parts) { return stretch(cols, tile_cols, i, parts); }

}  // namespace meshrt
