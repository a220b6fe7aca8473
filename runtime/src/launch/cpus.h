// cpus.h: which CPUs ranks may run on, and pinning. See also allowed_cpus in meshrt/launch.h.
#pragma once
#include <vector>

namespace meshrt {

/// The CPUs in this thread's affinity mask.
std::vector<int> cpus_in_mask();

/// Keeps this thread on one CPU.
void pin_to(int cpu);

}  // namespace meshrt
