// tune.h: which implementation of matrix products is the fastest on this machine, measured.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace meshrt {

/// A row of the table of products: "f32 thin own", and how it was found.
struct TunedRow {
  std::string type, shape;   ///< "f32", "thin"; or "bf16", "in_pairs"
  std::string chosen;        ///< "own", "openblas", "onednn"; of in_pairs "yes" or "no"
  double ratio = 0;          ///< the other's time over that of ours, in_pairs over widened; 0: there is nothing else
  std::string why_not = {};  ///< then: why
};

/// Measures on the calling thread, for some seconds (some minutes without vector instructions), ours and the others' in
/// turns, and gives each row to `see` as it is found. Another implementation is chosen where it is faster by 3 %: the
/// bits of ours do not depend on sizes.
std::vector<TunedRow> tune_products(const std::function<void(const TunedRow&)>& see);

/// The rows as a file that MESHRT_GEMM may name; `machine` stands in its head.
std::string text_of(const std::vector<TunedRow>& rows, const std::string& machine);

/// Whether a text is such a file.
bool is_product_table(const std::string& text);

}  // namespace meshrt
