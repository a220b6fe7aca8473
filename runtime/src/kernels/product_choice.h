// product_choice.h: which implementation runs a product: our own kernels (gemm_kernel.h) or OpenBLAS (blas.h).
#pragma once
#include <cstdint>
#include <optional>

#include "instruction_set.h"
#include "meshrt/gemm.h"

namespace meshrt {

enum class Implementation : uint8_t { own, openblas };

/// Kinds of products whose best implementation may differ.
enum class ProductClass : uint8_t {
  with_epilogue,  ///< with a bias, an activation, ...: OpenBLAS would need another pass over the result
  thin,           ///< fewer than 8 rows or columns
  small,          ///< fewer than 4 million multiplications
  matrix,
};

template <class T>
ProductClass class_of(const Product<T>& product) {
  constexpr int64_t thin = 8, few = int64_t{4} << 20;
  const Epilogue<T>& f = product.epilogue;
  if (f.scale != 1 || f.bias || f.slope || f.activation != Activation::none || f.times || f.plus || product.column_sum)
    return ProductClass::with_epilogue;
  if (product.rows < thin || product.cols < thin) return ProductClass::thin;
  return product.rows * product.cols < few / product.inner ? ProductClass::small : ProductClass::matrix;
}

/// The table: what is fastest where OpenBLAS is there.
template <class T>
Implementation fastest(InstructionSet level, ProductClass shape);
template <>
Implementation fastest<float>(InstructionSet level, ProductClass shape);
template <>
Implementation fastest<double>(InstructionSet level, ProductClass shape);

/// What MESHRT_GEMM asks for; nothing: the table. Throws Failure for another word than `own` and `openblas`.
std::optional<Implementation> wanted_implementation();

}  // namespace meshrt
