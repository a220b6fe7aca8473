// kernel_levels.h: the levels of instructions for which kernels are compiled on this architecture, each in a namespace
// called after it (instruction_set.h chooses).
#pragma once

// MESHRT_EACH_LEVEL(declare): declare(level) for each of them. MESHRT_VARIANTS(multiply<float>): what is so called at
// each, in their order.
#if defined(__x86_64__)
#define MESHRT_EACH_LEVEL(declare) declare(portable) declare(avx2) declare(avx512)
#define MESHRT_VARIANTS(...) \
  { portable::__VA_ARGS__, avx2::__VA_ARGS__, avx512::__VA_ARGS__ }
#elif defined(__aarch64__)
#define MESHRT_EACH_LEVEL(declare) declare(portable) declare(neon)
#define MESHRT_VARIANTS(...) \
  { portable::__VA_ARGS__, neon::__VA_ARGS__ }
#else
#define MESHRT_EACH_LEVEL(declare) declare(portable)
#define MESHRT_VARIANTS(...) \
  { portable::__VA_ARGS__ }
#endif
