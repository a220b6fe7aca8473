#include "conv_kernel.h"

#include "multiplicand.h"

namespace meshrt::MESHRT_ISA {

template <class T, class In>
void multiply_add(int64_t n, const In* a, const In* b, T* c) {
  int64_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>) store(c + i, fma(load_as<T>(a + i), load_as<T>(b + i), load(c + i)));
  for (; i < n; ++i) c[i] = detail::fma(static_cast<T>(a[i]), static_cast<T>(b[i]), c[i]);
}

template void multiply_add(int64_t, const float*, const float*, float*);
template void multiply_add(int64_t, const double*, const double*, double*);
template void multiply_add(int64_t, const Bfloat16*, const Bfloat16*, float*);
template void multiply_add(int64_t, const Float16*, const Float16*, float*);

}  // namespace meshrt::MESHRT_ISA
