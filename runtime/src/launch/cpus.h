// cpus.h: which CPUs ranks may run on: masks, the cores that CPUs are threads of, quotas; and pinning. See also
// allowed_cpus in meshrt/launch.h. `root` stands before /proc and /sys, for tests.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "meshrt/launch.h"

namespace meshrt {

/// The CPUs in this thread's affinity mask, in order.
std::vector<int> cpus_in_mask();

/// Keeps this thread on these CPUs.
void keep_to(const std::vector<int>& cpus);

/// A list of CPUs as the kernel writes it, in order: "0-3,8". Nothing for other text.
std::optional<std::vector<int>> parse_cpu_list(const std::string& text);
std::string cpu_list_text(const std::vector<int>& cpus);

/// CPUs by the core that they are threads of. A CPU whose core is not known counts as a core of its own.
using Cores = std::vector<std::vector<int>>;
Cores cores_of(const std::vector<int>& cpus, const std::string& root = "");
/// All CPUs: the first thread of every core, then the second ones.
std::vector<int> spread(const Cores& cores);

/// How many CPUs the control groups of this process leave it time for, at least 1; nothing where none sets a quota.
std::optional<int> cpu_quota(const std::string& root = "");

/// What the ranks of a host may use.
struct CpuRoom {
  size_t cpus, cores;  ///< in the mask
  size_t quota;        ///< CPUs that there is time for, at most `cpus`
};
CpuRoom cpu_room();

/// Whether so many threads, of all ranks, are pinned to a CPU each. Automatic: where they take every core or every
/// CPU; where they leave some free, or a quota does, other jobs on the host would be pinned to the same ones.
bool binds(Binding binding, size_t threads, const CpuRoom& room);

}  // namespace meshrt
