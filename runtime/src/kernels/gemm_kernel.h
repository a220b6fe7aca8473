// gemm_kernel.h: the product as each instruction set offers it; gemm.cpp chooses.
#pragma once
#include "meshrt/gemm.h"

namespace meshrt {

#define MESHRT_DECLARE_MULTIPLY(isa)                     \
  namespace isa {                                        \
  template <class T>                                     \
  void multiply(const Product<T>& product);              \
  template <class T>                                     \
  void complete(const Product<T>& product);              \
  extern template void multiply(const Product<float>&);  \
  extern template void multiply(const Product<double>&); \
  extern template void complete(const Product<float>&);  \
  extern template void complete(const Product<double>&); \
  }

// multiply: the whole product. complete: what belongs to it but for the sum itself, which c already holds.
MESHRT_DECLARE_MULTIPLY(portable)
#if defined(__x86_64__)
MESHRT_DECLARE_MULTIPLY(avx2)
MESHRT_DECLARE_MULTIPLY(avx512)
#endif
#undef MESHRT_DECLARE_MULTIPLY

}  // namespace meshrt
