// logits_kernel.h: what a row of logits says, as each instruction set computes it; data/sampling.cpp chooses.
#pragma once
#include <cstdint>

#include "kernel_levels.h"

namespace meshrt {

#define MESHRT_DECLARE_LOGITS(isa)                     \
  namespace isa {                                      \
  double log_sum_exp(const double* logits, int64_t n); \
  int64_t likeliest(const double* logits, int64_t n);  \
  }

// log_sum_exp: the logarithm of exp(logits[0]) + .. + exp(logits[n - 1]), in the order of lanes.h.
// likeliest: where the largest one stands, the first of several.
MESHRT_EACH_LEVEL(MESHRT_DECLARE_LOGITS)
#undef MESHRT_DECLARE_LOGITS

}  // namespace meshrt
