// product_libraries.h: the libraries that multiply what our own kernels do not (product_choice.h, product_table.h),
// each opened when the first product may be its.
#pragma once
#include "blas.h"
#include "meshrt/gemm.h"
#include "onednn.h"

namespace meshrt {

/// The library that is to run this product; null: our own kernels. Throws Failure (Cause::environment) where
/// MESHRT_GEMM asks for one that is not there, or cannot do it.
const Blas* library_for(const Product<float>& product);
const Blas* library_for(const Product<double>& product);
const OneDnn* library_for(const Product<float, Bfloat16>& product);

}  // namespace meshrt
