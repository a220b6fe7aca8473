// product_choice.h: which implementation runs a product: our own kernels (gemm_kernel.h), OpenBLAS (blas.h), or, of two
// of bf16, oneDNN (product_onednn.h).
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "instruction_set.h"
#include "meshrt/gemm.h"

namespace meshrt {

enum class Implementation : uint8_t { own, openblas, onednn };
inline constexpr std::array all_implementations = {Implementation::own, Implementation::openblas,
                                                   Implementation::onednn};
const char* name_of(Implementation);

/// Kinds of products whose best implementation may differ.
enum class ProductClass : uint8_t {
  with_epilogue,  ///< with a bias, an activation, ...: OpenBLAS would need another pass over the result
  thin,           ///< fewer than 8 rows or columns
  small,          ///< fewer than 4 million multiplications
  matrix,
};

/// The class by its extents alone.
inline ProductClass class_of(int64_t rows, int64_t cols, int64_t inner) {
  constexpr int64_t thin = 8, few = int64_t{4} << 20;
  if (rows < thin || cols < thin) return ProductClass::thin;
  return rows * cols < few / inner ? ProductClass::small : ProductClass::matrix;
}

template <class T, class A, class B>
ProductClass class_of(const Product<T, A, B>& product) {
  const Epilogue<T>& f = product.epilogue;
  if (f.scale != 1 || f.bias || f.slope || f.activation != Activation::none || f.times || f.plus || product.column_sum)
    return ProductClass::with_epilogue;
  return class_of(product.rows, product.cols, product.inner);
}

/// The table: what is fastest where OpenBLAS is there.
template <class T>
Implementation fastest(InstructionSet level, ProductClass shape);
template <>
Implementation fastest<float>(InstructionSet level, ProductClass shape);
template <>
Implementation fastest<double>(InstructionSet level, ProductClass shape);

/// What MESHRT_GEMM asks for; nothing: the table, or that of a file (product_table.h). Throws Failure for a word that
/// is no implementation.
std::optional<Implementation> wanted_implementation();

}  // namespace meshrt
