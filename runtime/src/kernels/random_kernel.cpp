// random_kernel.cpp: compiled once an instruction set, see simd.h.
#include "random_kernel.h"

namespace meshrt::MESHRT_ISA {

template <class T>
void draw_run(const Draw& draw, int64_t first, int64_t n, T* __restrict to) {
  const auto [distribution, key, a, b] = draw;
  switch (distribution) {
    case Distribution::uniform:
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(a + (b - a) * uniform<double>(key, first + i));
      break;
    case Distribution::normal:
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(a + b * normal<double>(key, first + i));
      break;
    case Distribution::truncated_normal:
      for (int64_t i = 0; i < n; ++i) {
        double x = normal<double>(key, first + i);
        for (uint64_t again = 1; abs(x) > 2; ++again) x = normal<double>(key.at(again), first + i);
        to[i] = static_cast<T>(a + b * x);
      }
      break;
  }
}

template void draw_run(const Draw&, int64_t, int64_t, float*);
template void draw_run(const Draw&, int64_t, int64_t, double*);

}  // namespace meshrt::MESHRT_ISA
