#include "meshrt/attention.h"

#include "attention_kernel.h"
#include "instruction_set.h"
#include "meshrt/profile.h"

namespace meshrt {

template <class T>
void attention(const AttentionShape& shape, const AttentionForward<T>& tensors) {
  const Timed timed(&StepProfile::attention, [] { return TraceLabel{"attention"}; });
  using Kernel = void (*)(const AttentionShape&, const AttentionForward<T>&);
  static const auto kernel = choose<Kernel>(MESHRT_VARIANTS(attention<T>));
  kernel(shape, tensors);
}

template <class T>
void attention_backward(const AttentionShape& shape, const AttentionBackward<T>& tensors) {
  const Timed timed(&StepProfile::attention, [] { return TraceLabel{"attention backward"}; });
  using Kernel = void (*)(const AttentionShape&, const AttentionBackward<T>&);
  static const auto kernel = choose<Kernel>(MESHRT_VARIANTS(attention_backward<T>));
  kernel(shape, tensors);
}

template void attention(const AttentionShape&, const AttentionForward<float>&);
template void attention(const AttentionShape&, const AttentionForward<double>&);
template void attention_backward(const AttentionShape&, const AttentionBackward<float>&);
template void attention_backward(const AttentionShape&, const AttentionBackward<double>&);

}  // namespace meshrt
