// memory.h: gives every buffer its place: lifetimes to offsets, planned once, equal on all ranks.
#pragma once
#include "codegen/program/program.h"

namespace mesh {

/// What a process can address: 47 bits.
inline constexpr int64_t most_bytes_of_a_rank = int64_t{1} << 47;

/// Sets Buffer::elements and Buffer::offset and Program::memory. Stored tensors come first, in the order of their
/// declaration; others share memory where they never live at the same time, and a nest's result takes over the memory
/// of an operand, or of what the nest itself has made, that dies there. Not `share`: every buffer has a place of its
/// own.
void plan_memory(Program&, bool share = true);

/// Whether `born`, which the nest stores first in this step, may lie where `dying` lies, which no later step reads, and
/// which this one may have made: each element of `dying` is used by one iteration only, and not after its place is
/// written.
bool may_take_over(const Program&, const Nest&, BufferId dying, BufferId born);

}  // namespace mesh
