#include "collectives/vector_ops.h"

namespace meshrt {

namespace portable {
extern const VectorOps ops;
}
#if defined(__x86_64__)
namespace avx2 {
extern const VectorOps ops;
}
namespace avx512 {
extern const VectorOps ops;
}
#endif

const VectorOps& vector_ops() {
#if defined(__x86_64__)
  static const VectorOps& chosen = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") ? avx512::ops
                                   : __builtin_cpu_supports("avx2")                                        ? avx2::ops
                                                                    : portable::ops;
  return chosen;
#else
  return portable::ops;
#endif
}

}  // namespace meshrt
