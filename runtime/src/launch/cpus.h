// cpus.h: which CPUs ranks may run on, and pinning. See also allowed_cpus in meshrt/launch.h.
#pragma once
#include <cstddef>
#include <vector>

#include "meshrt/launch.h"

namespace meshrt {

/// The CPUs in this thread's affinity mask.
std::vector<int> cpus_in_mask();

/// Keeps this thread on one CPU.
void pin_to(int cpu);

/// Whether `ranks` ranks are pinned to a CPU each of the `in_mask` that they may run on, where a quota may allow fewer
/// (`allowed`): then, or where ranks leave some free, other jobs on the host would be pinned to the same ones.
bool binds(Binding binding, size_t ranks, size_t in_mask, int allowed);

}  // namespace meshrt
