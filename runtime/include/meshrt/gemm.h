// gemm.h: matrix products of any extents and strides, with what follows them (bias, activation, gate, residual) applied
// while a tile of the result is in the first-level cache. Each element is one chain of fused multiply-adds over the
// inner extent in order, so the bits depend neither on the instruction set nor on how rows and columns are split. Of
// bf16 operands the chain takes two products at a time where the CPU does so (vdpbf16ps), which rounds otherwise. Those
// of f16 are always widened to f32.
// OpenBLAS and oneDNN promise only the same bits for the same extents and strides. OpenBLAS runs what it is measured
// faster at, which is nothing with AVX-512 or NEON, and everything on an x86 without AVX2; oneDNN large products of
// bf16 where there is AMX (product_choice.cpp; MESHRT_GEMM, a word or a table, overrides). Callable from several
// threads at once; scratch memory belongs to the thread.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "meshrt/bfloat16.h"
#include "meshrt/float16.h"
#include "meshrt/narrow.h"

namespace meshrt {

enum class Activation : uint8_t { none, relu, gelu, gelu_tanh, silu };

/// What happens to c[i, j] after the sum, in this order; a null pointer leaves a line out. `slope`, `times`, `plus` and
/// `rounded` lie like c: same offsets, rows `c_row` apart; none of them may be c itself, whose place holds the sum by
/// then (`accumulate` adds to what c held).
template <class T>
struct Epilogue {
  T scale = 1;                               ///< c = scale * (a · b)
  const T* bias = nullptr;                   ///< c += bias[j]
  T* slope = nullptr;                        ///< slope[i, j] = activation'(c), for backward
  Activation activation = Activation::none;  ///< c = activation(c)
  const T* times = nullptr;                  ///< c *= times[i, j]
  const T* plus = nullptr;                   ///< c += plus[i, j]
  Bfloat16* rounded = nullptr;               ///< rounded[i, j] = c, to the nearest
  bool rounded_alone = false;                ///< nobody reads c beside `rounded`: it may hold anything afterwards
};

/// c[i * c_row + j] = sum over k of a[i * a_row + k * a_col] * b[k * b_row + j * b_col], i < rows, j < cols, k < inner.
/// Strides count elements and may be anything, 0 too; c must not overlap a or b. An inner extent of 0 gives zeros.
/// Operands of another type than c are bf16 or f16, one or both, and c is f32. Each product of two of them is exact in
/// f32, in which they are added up; one beside an f32 gives what the same number in f32 gives by our own kernels, bit
/// by bit. Beside an a of bf16, b may be f32 that is rounded as it is read (AsBfloat16): the bits are those of a
/// product with what it rounds to.
template <class T, class A = T, class B = A>
struct Product {
  int64_t rows = 0, cols = 0, inner = 0;
  const A* a = nullptr;
  int64_t a_row = 0, a_col = 1;
  const B* b = nullptr;
  int64_t b_row = 0, b_col = 1;
  T* c = nullptr;
  int64_t c_row = 0;
  bool accumulate = false;  ///< the sum starts from what c holds, else from 0; `epilogue` sees the whole sum once
  Epilogue<T> epilogue = {};
  T* column_sum = nullptr;  ///< [cols]: sum over k of b[k, j], added where `accumulate`, from the pass that reads b
};

/// One loop around a product: `count` of them, each operand moved by its stride. `epilogue` moves with c, but for the
/// bias
/// (`bias_stride`) and `column_sum` (`sum_stride`).
struct Batch {
  int64_t count = 1, a_stride = 0, b_stride = 0, c_stride = 0, bias_stride = 0, sum_stride = 0;
};

template <class T, class A, class B = A>
void multiply(const Product<T, A, B>& product);

/// The product under nested loops, the first outermost.
template <class T, class A, class B = A>
void multiply_batch(const Product<T, A, B>& product, std::span<const Batch> loops);

extern template void multiply(const Product<float>&);
extern template void multiply(const Product<double>&);
extern template void multiply(const Product<float, Bfloat16>&);
extern template void multiply(const Product<float, Bfloat16, AsBfloat16>&);
extern template void multiply(const Product<float, float, Bfloat16>&);
extern template void multiply(const Product<float, Bfloat16, float>&);
extern template void multiply(const Product<float, Float16>&);
extern template void multiply(const Product<float, float, Float16>&);
extern template void multiply(const Product<float, Float16, float>&);
extern template void multiply_batch(const Product<float>&, std::span<const Batch>);
extern template void multiply_batch(const Product<double>&, std::span<const Batch>);
extern template void multiply_batch(const Product<float, Bfloat16>&, std::span<const Batch>);
extern template void multiply_batch(const Product<float, Bfloat16, AsBfloat16>&, std::span<const Batch>);
extern template void multiply_batch(const Product<float, float, Bfloat16>&, std::span<const Batch>);
extern template void multiply_batch(const Product<float, Bfloat16, float>&, std::span<const Batch>);
extern template void multiply_batch(const Product<float, Float16>&, std::span<const Batch>);
extern template void multiply_batch(const Product<float, float, Float16>&, std::span<const Batch>);
extern template void multiply_batch(const Product<float, Float16, float>&, std::span<const Batch>);

/// Which implementations run, for messages and for ranks to compare: "own avx512", "openblas Haswell" or
/// "own avx2, matrices of f64 without an epilogue openblas Haswell"; of a program that has products of narrow numbers
/// what becomes of these too: ", bf16 by vdpbf16ps", or ", bf16 widened, f16 widened" to f32, ", matrices of bf16
/// oneDNN 2.6.3 avx512_amx".
std::string multiply_name(Narrow narrow = {});

/// What to tell the user where products are far slower than they could be; else empty.
std::string multiply_warning(Narrow narrow = {});

}  // namespace meshrt
