// attention_kernel.h: attention as each instruction set offers it; attention.cpp chooses.
#pragma once
#include "meshrt/attention.h"

namespace meshrt {

#define MESHRT_DECLARE_ATTENTION(isa)                                                               \
  namespace isa {                                                                                   \
  template <class T>                                                                                \
  void attention(const AttentionShape& shape, const AttentionForward<T>& tensors);                  \
  template <class T>                                                                                \
  void attention_backward(const AttentionShape& shape, const AttentionBackward<T>& tensors);        \
  extern template void attention(const AttentionShape&, const AttentionForward<float>&);            \
  extern template void attention(const AttentionShape&, const AttentionForward<double>&);           \
  extern template void attention_backward(const AttentionShape&, const AttentionBackward<float>&);  \
  extern template void attention_backward(const AttentionShape&, const AttentionBackward<double>&); \
  }
MESHRT_DECLARE_ATTENTION(portable)
#if defined(__x86_64__)
MESHRT_DECLARE_ATTENTION(avx2)
MESHRT_DECLARE_ATTENTION(avx512)
#endif
#undef MESHRT_DECLARE_ATTENTION

}  // namespace meshrt
