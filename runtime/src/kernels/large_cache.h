// large_cache.h: what kernels of every instruction set ask of this machine's caches.
#pragma once

namespace meshrt {

/// Whether a core has 1.25 MiB of second-level cache or more, as a Xeon since Ice Lake has: room for two blocks of half
/// a MiB beside rows of the other operand.
bool large_second_level_cache();

/// For tests: whatever this machine has.
void suppose_second_level_cache(bool large);

}  // namespace meshrt
