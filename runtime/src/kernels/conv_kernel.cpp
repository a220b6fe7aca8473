#include "conv_kernel.h"

#include "simd.h"

namespace meshrt::MESHRT_ISA {

template <class T>
void multiply_add(int64_t n, const T* a, const T* b, T* c) {
  int64_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>) store(c + i, fma(load(a + i), load(b + i), load(c + i)));
  for (; i < n; ++i) c[i] = detail::fma(a[i], b[i], c[i]);
}

template void multiply_add(int64_t, const float*, const float*, float*);
template void multiply_add(int64_t, const double*, const double*, double*);

}  // namespace meshrt::MESHRT_ISA
