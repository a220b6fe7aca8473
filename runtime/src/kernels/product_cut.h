// product_cut.h: how a product is cut for the threads of a rank: into stretches of its rows, of its columns, or both.
#pragma once
#include <cstdint>

namespace meshrt {

struct ProductCut {
  int64_t rows = 1, cols = 1;  ///< how many stretches of either
  int64_t pieces() const { return rows * cols; }
};

/// Rows, or columns.
struct TileRange {
  int64_t begin, end;
};

/// The cut with which so many threads end first: pieces are as equal as whole tiles allow. Each piece copies its
/// columns of b, and where `copies_left` its rows of a, so few long stretches beat many short ones. Of cuts that are as
/// good it is the one of most pieces: a thread that is held up leaves more of them to others.
ProductCut cut_product(int64_t rows, int64_t cols, bool copies_left, int threads);

/// The i-th of `parts` stretches of rows, or of columns.
TileRange stretch_of_rows(int64_t rows, int64_t i, int64_t parts);
TileRange stretch_of_columns(int64_t cols, int64_t i, int64_t parts);

}  // namespace meshrt
