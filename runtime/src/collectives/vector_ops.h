// vector_ops.h: the loops of collectives: reduce several buffers element by element.
// vector_ops.cpp is compiled once per instruction set; the widest that the processor has is chosen at run
// time. All give the same bits: sources are combined in a binary tree over their order, bf16 and f16 add up in f32
// and round once.
#pragma once
#include <cstddef>
#include <cstdint>

#include "meshrt/types.h"

namespace meshrt {

struct VectorOps {
  /// to[i] = from[0][i] (op) from[1][i] (op) ... from[sources - 1][i] for i < count, neighbours first: of five
  /// ((0 1) (2 3)) 4. `to` may be one of the sources.
  void (*reduce)(Type type, Reduce op, std::byte* to, const std::byte* const* from, int sources, int64_t count);

  /// The same of values[0], values[1] .. values[members - 1], which all become it.
  void (*reduce_everywhere)(Type type, Reduce op, std::byte* const* values, int members, int64_t count);
};

/// The widest that this processor runs.
const VectorOps& vector_ops();

}  // namespace meshrt
