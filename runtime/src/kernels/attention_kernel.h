// attention_kernel.h: attention as each instruction set offers it; attention.cpp chooses.
#pragma once
#include "kernel_levels.h"
#include "meshrt/attention.h"

namespace meshrt {

#define MESHRT_DECLARE_ATTENTION(isa)                                                                        \
  namespace isa {                                                                                            \
  template <class T, class In>                                                                               \
  void attention(const AttentionShape& shape, const AttentionForward<T, In>& tensors);                       \
  template <class T, class In>                                                                               \
  void attention_backward(const AttentionShape& shape, const AttentionBackward<T, In>& tensors);             \
  extern template void attention(const AttentionShape&, const AttentionForward<float>&);                     \
  extern template void attention(const AttentionShape&, const AttentionForward<double>&);                    \
  extern template void attention(const AttentionShape&, const AttentionForward<float, Bfloat16>&);           \
  extern template void attention(const AttentionShape&, const AttentionForward<float, Float16>&);            \
  extern template void attention_backward(const AttentionShape&, const AttentionBackward<float>&);           \
  extern template void attention_backward(const AttentionShape&, const AttentionBackward<double>&);          \
  extern template void attention_backward(const AttentionShape&, const AttentionBackward<float, Bfloat16>&); \
  extern template void attention_backward(const AttentionShape&, const AttentionBackward<float, Float16>&);  \
  }
MESHRT_EACH_LEVEL(MESHRT_DECLARE_ATTENTION)
#if defined(__x86_64__)
// Of bf16 alone: by an instruction that adds up two products at a time.
namespace avx512_bf16 {
template <class T, class In>
void attention(const AttentionShape& shape, const AttentionForward<T, In>& tensors);
template <class T, class In>
void attention_backward(const AttentionShape& shape, const AttentionBackward<T, In>& tensors);
extern template void attention(const AttentionShape&, const AttentionForward<float, Bfloat16>&);
extern template void attention_backward(const AttentionShape&, const AttentionBackward<float, Bfloat16>&);
}  // namespace avx512_bf16
#endif
#undef MESHRT_DECLARE_ATTENTION

}  // namespace meshrt
