// large_cache.h: what kernels of every instruction set ask of this machine's caches.
#pragma once

namespace meshrt {

/// Whether a core has 1.25 MiB of second-level cache or more, as a Xeon since Ice Lake has: beside rows of the other
/// operand two blocks of half a MiB.
bool large_second_level_cache();

}  // namespace meshrt
