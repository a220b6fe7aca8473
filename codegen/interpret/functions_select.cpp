#include <algorithm>
#include <cmath>
#include <limits>

#include "codegen/graph/builder.h"
#include "codegen/interpret/functions.h"

namespace mesh {

namespace portable {
extern const ChunkKernels kernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const ChunkKernels kernels;
}
#endif

const ChunkKernels& chunk_kernels() {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has_avx2 ? avx2::kernels : portable::kernels;
#else
  return portable::kernels;
#endif
}

namespace {

template <class T>
void write_integer(double value, void* to) {
  using Limits = std::numeric_limits<T>;
  *static_cast<T*>(to) = value >= static_cast<double>(Limits::max())      ? Limits::max()
                         : value <= static_cast<double>(Limits::lowest()) ? Limits::lowest()
                                                                          : static_cast<T>(value);
}

}  // namespace

void write_literal(double value, meshrt::Type type, void* to) {
  using meshrt::Type;
  switch (type) {
    case Type::f32: *static_cast<float*>(to) = static_cast<float>(value); return;
    case Type::f64: *static_cast<double*>(to) = value; return;
    case Type::bf16: *static_cast<meshrt::Bfloat16*>(to) = meshrt::Bfloat16(static_cast<float>(value)); return;
    case Type::f16: *static_cast<meshrt::Float16*>(to) = meshrt::Float16(static_cast<float>(value)); return;
    case Type::i32: write_integer<int32_t>(value, to); return;
    case Type::i64: write_integer<int64_t>(value, to); return;
    case Type::u8: write_integer<uint8_t>(value, to); return;
    case Type::boolean: *static_cast<bool*>(to) = value != 0; return;
  }
}

}  // namespace mesh
