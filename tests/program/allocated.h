// allocated.h: what work takes of the heap. It counts where a pass copies, or makes a list, for each step of all of
// them, without a clock.
#pragma once
#include <cstdint>

namespace mesh::tests {

/// Bytes that this thread has asked for so far, given back or not.
uint64_t bytes_allocated();

}  // namespace mesh::tests
