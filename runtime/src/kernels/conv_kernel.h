// conv_kernel.h: what convolutions do channel by channel, as each instruction set does it; conv.cpp chooses.
#pragma once
#include <cstdint>

#include "kernel_levels.h"
#include "meshrt/bfloat16.h"
#include "meshrt/float16.h"

namespace meshrt {

#define MESHRT_DECLARE_MULTIPLY_ADD(isa)                                                \
  namespace isa {                                                                       \
  template <class T, class In>                                                          \
  void multiply_add(int64_t n, const In* a, const In* b, T* c);                         \
  extern template void multiply_add(int64_t, const float*, const float*, float*);       \
  extern template void multiply_add(int64_t, const double*, const double*, double*);    \
  extern template void multiply_add(int64_t, const Bfloat16*, const Bfloat16*, float*); \
  extern template void multiply_add(int64_t, const Float16*, const Float16*, float*);   \
  }

// multiply_add: c[i] = a[i] * b[i] + c[i], rounded once.
MESHRT_EACH_LEVEL(MESHRT_DECLARE_MULTIPLY_ADD)
#undef MESHRT_DECLARE_MULTIPLY_ADD

}  // namespace meshrt
