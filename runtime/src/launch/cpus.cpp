#include "launch/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "meshrt/launch.h"

namespace meshrt {

std::vector<int> cpus_in_mask() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);  // only a hint: without it everything works
}

bool binds(Binding binding, size_t ranks, size_t in_mask, int allowed) {
  if (binding == Binding::automatic) return ranks == in_mask && ranks <= static_cast<size_t>(allowed);
  return binding == Binding::core && ranks <= in_mask;
}

int allowed_cpus() {
  int cpus = std::max<int>(1, static_cast<int>(cpus_in_mask().size()));
  // "max 100000" or "200000 100000": microseconds of processor time per period; a container sees its own group at the
  // root.
  std::string quota;
  double period = 0;
  if (std::ifstream("/sys/fs/cgroup/cpu.max") >> quota >> period && quota != "max" && period > 0)
    cpus = std::min(cpus, std::max(1, static_cast<int>(std::floor(std::strtod(quota.c_str(), nullptr) / period))));
  return cpus;
}

}  // namespace meshrt
