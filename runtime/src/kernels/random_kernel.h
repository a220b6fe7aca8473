// random_kernel.h: stretches of random numbers as each instruction set makes them; random.cpp chooses.
#pragma once
#include <cstdint>

#include "kernel_levels.h"
#include "meshrt/random.h"

namespace meshrt {

enum class Distribution : uint8_t { uniform, normal, truncated_normal };

/// The numbers of a tensor: uniform in [a, b), or with mean a and deviation b.
struct Draw {
  Distribution distribution;
  RandomKey key;
  double a, b;
};

#define MESHRT_DECLARE_DRAW(isa)                                         \
  namespace isa {                                                        \
  template <class T>                                                     \
  void draw_run(const Draw& draw, int64_t first, int64_t n, T* to);      \
  extern template void draw_run(const Draw&, int64_t, int64_t, float*);  \
  extern template void draw_run(const Draw&, int64_t, int64_t, double*); \
  }

// draw_run: to[i] = element first + i of the tensor.
MESHRT_EACH_LEVEL(MESHRT_DECLARE_DRAW)
#undef MESHRT_DECLARE_DRAW

}  // namespace meshrt
