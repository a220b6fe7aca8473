// product_onednn.h: products of bf16 by oneDNN, which alone of what we use knows AMX (product_choice.h chooses).
#pragma once
#include "meshrt/gemm.h"
#include "onednn.h"

namespace meshrt {

/// The sums of the product, without what follows them (`complete` in gemm_kernel.h), on all threads of the rank; the
/// same bits for any number of them. False, and nothing is done, where an operand has no unit stride, or oneDNN has
/// nothing for it but a generic kernel.
bool multiply_onednn(const OneDnn&, const Product<float, Bfloat16>& product);

/// Whether it has kernels for bf16 on this processor: not without AVX-512.
bool multiplies_bf16(const OneDnn&);

}  // namespace meshrt
