// gemm_kernel.h: the product as each instruction set offers it; gemm.cpp chooses.
#pragma once
#include "kernel_levels.h"
#include "meshrt/gemm.h"

namespace meshrt {

#define MESHRT_DECLARE_MULTIPLY(isa)                                          \
  namespace isa {                                                             \
  template <class T, class A, class B = A>                                    \
  void multiply(const Product<T, A, B>& product);                             \
  template <class T, class A = T, class B = A>                                \
  void complete(const Product<T, A, B>& product);                             \
  extern template void multiply(const Product<float>&);                       \
  extern template void multiply(const Product<double>&);                      \
  extern template void multiply(const Product<float, Bfloat16>&);             \
  extern template void multiply(const Product<float, Bfloat16, AsBfloat16>&); \
  extern template void multiply(const Product<float, float, Bfloat16>&);      \
  extern template void multiply(const Product<float, Bfloat16, float>&);      \
  extern template void multiply(const Product<float, Float16>&);              \
  extern template void multiply(const Product<float, float, Float16>&);       \
  extern template void multiply(const Product<float, Float16, float>&);       \
  extern template void complete(const Product<float>&);                       \
  extern template void complete(const Product<double>&);                      \
  extern template void complete(const Product<float, Bfloat16>&);             \
  }

// multiply: the whole product. complete: what belongs to it but for the sum itself, which c already holds.
MESHRT_EACH_LEVEL(MESHRT_DECLARE_MULTIPLY)
#if defined(__x86_64__)
// Of two of bf16 alone: by an instruction that adds up two products at a time.
namespace avx512_bf16 {
template <class T, class A, class B = A>
void multiply(const Product<T, A, B>& product);
extern template void multiply(const Product<float, Bfloat16>&);
extern template void multiply(const Product<float, Bfloat16, AsBfloat16>&);
}  // namespace avx512_bf16
#endif
#undef MESHRT_DECLARE_MULTIPLY

}  // namespace meshrt
