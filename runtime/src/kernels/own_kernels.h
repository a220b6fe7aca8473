// own_kernels.h: our own kernels for this machine.
#pragma once
#include <type_traits>

#include "gemm_kernel.h"
#include "instruction_set.h"

namespace meshrt {

template <class T, class A = T, class B = A>
using Kernel = void (*)(const Product<T, A, B>&);

/// The whole product; of two of bf16 in pairs, where the processor can, or widened.
template <class T, class A = T, class B = A>
Kernel<T, A, B> own_multiply([[maybe_unused]] bool in_pairs = instruction_set() >= InstructionSet::avx512_bf16) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<A, Bfloat16> && !std::is_same_v<B, float>)
    if (in_pairs) return avx512_bf16::multiply<T, A, B>;
#endif
  return choose<Kernel<T, A, B>>(MESHRT_VARIANTS(multiply<T, A, B>));
}

/// What belongs to it but for the sums, which c already holds.
template <class T, class A = T, class B = A>
Kernel<T, A, B> own_complete() {
  return choose<Kernel<T, A, B>>(MESHRT_VARIANTS(complete<T, A, B>));
}

}  // namespace meshrt
