// functions.h: the interpreter's inner loops: one elementwise function, one reduction or one movement over a
// chunk of elements. Each is the loop that the emitter would write (`y[i] = f(a[i], b[i])` with the functions of
// meshrt/math.h, sums in the lanes of meshrt/lanes.h), so the numbers are the same bit for bit. Built once for every
// instruction set; the best that the processor has is chosen at the first call.
#pragma once
#include <cstddef>
#include <cstdint>

#include "codegen/graph/graph.h"
#include "codegen/graph/map_function.h"
#include "meshrt/random.h"
#include "meshrt/types.h"

namespace mesh {

/// Elements that a loop works on at a time: a multiple of the lanes of a reduction.
inline constexpr int64_t chunk_elements = 256;
/// Room for the lanes of a reduction, of any type.
inline constexpr int64_t lane_bytes = int64_t{16} * 8;

/// y[i] = f(a[i], b[i], c[i]) for i < n <= chunk_elements; operands that the function lacks are null. `y` overlaps
/// none.
using ChunkFunction = void (*)(const void* a, const void* b, const void* c, void* y, int64_t n);

/// A reduction in lanes: element i of the innermost extent goes to lane i mod 16. Chunks begin at multiples of 16.
struct ChunkReduction {
  void (*start)(void* lanes);
  void (*fold)(const void* x, void* lanes, int64_t n);
  void (*join)(const void* lanes, void* to);  // to other lanes, after what these have taken
  void (*finish)(const void* lanes, void* row);
};

/// The index of the largest or smallest element of what has been folded, the first of equals, among those that beat the
/// reduction's neutral value; 0 where none does.
struct ArgFold {
  alignas(8) std::byte best[8];
  int32_t index = 0;
};
struct ChunkArgFold {
  void (*start)(ArgFold&);
  void (*fold)(const void* x, int64_t first, int64_t n, ArgFold&);
};

/// to[i * stride] = to[i * stride] (+, max, min) x[i], in order of i; stride in elements, 0: all into one.
using ChunkAccumulate = void (*)(const void* x, void* to, int64_t stride, int64_t n);
/// to[i * to_stride] = from[i * from_stride]; strides in elements.
using ChunkMove = void (*)(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n);

/// y[i] = the random number of element first + i * step.
using ChunkDraw = void (*)(meshrt::RandomKey, int64_t first, int64_t step, void* y, int64_t n);

struct ChunkKernels {
  /// Null where the function does not exist for these types. `operand` is the element type of the operands: of `where`
  /// the branches', of `cast` what is cast.
  ChunkFunction (*function)(MapFunction, meshrt::Type operand, meshrt::Type result);
  ChunkReduction (*reduction)(meshrt::Reduce, meshrt::Type);  // null members: no such reduction
  ChunkArgFold (*arg_fold)(meshrt::Reduce, meshrt::Type);
  ChunkAccumulate (*accumulate)(meshrt::Reduce, meshrt::Type);
  ChunkMove (*move)(meshrt::Type);
  ChunkDraw (*draw)(Distribution, meshrt::Type);  // null but for floats
};

const ChunkKernels& chunk_kernels();

/// Writes the number, rounded to the type, to `to`; infinities become the limits of an integer type.
void write_literal(double value, meshrt::Type, void* to);

}  // namespace mesh
