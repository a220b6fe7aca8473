// logits_kernel.cpp: compiled once an instruction set, see simd.h.
#include "logits_kernel.h"

#include "meshrt/lanes.h"

namespace meshrt::MESHRT_ISA {

double log_sum_exp(const double* logits, int64_t n) {
  const double top = max_of<double>(n, [&](int64_t i) { return logits[i]; });
  return top + log(sum_of<double>(n, [&](int64_t i) { return exp(logits[i] - top); }));
}

int64_t likeliest(const double* logits, int64_t n) {
  return argmax_of<double>(n, [&](int64_t i) { return logits[i]; });
}

}  // namespace meshrt::MESHRT_ISA
