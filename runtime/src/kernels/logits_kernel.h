// logits_kernel.h: what a row of logits says, as each instruction set computes it; data/sampling.cpp chooses.
#pragma once
#include <cstdint>

namespace meshrt {

#define MESHRT_DECLARE_LOGITS(isa)                     \
  namespace isa {                                      \
  double log_sum_exp(const double* logits, int64_t n); \
  int64_t likeliest(const double* logits, int64_t n);  \
  }

// log_sum_exp: the logarithm of exp(logits[0]) + .. + exp(logits[n - 1]), in the order of lanes.h.
// likeliest: where the largest one stands, the first of several.
MESHRT_DECLARE_LOGITS(portable)
#if defined(__x86_64__)
MESHRT_DECLARE_LOGITS(avx2)
MESHRT_DECLARE_LOGITS(avx512)
#endif
#undef MESHRT_DECLARE_LOGITS

}  // namespace meshrt
