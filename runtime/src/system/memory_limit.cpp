#include "system/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "meshrt/log.h"
#include "system/control_groups.h"

namespace meshrt {

namespace {

namespace fs = std::filesystem;

/// The number in a one-line file; nothing for "max", or when there is no such file.
std::optional<int64_t> number_in(const fs::path& path) {
  uint64_t number = 0;
  if (!(std::ifstream(path) >> number)) return std::nullopt;
  // Version 1 writes "no limit" as the greatest number of pages.
  return number > (uint64_t{1} << 60) ? std::nullopt : std::optional(static_cast<int64_t>(number));
}

/// The number that stands beside `key` in lines of "key number ...".
int64_t entry_of(const fs::path& path, const std::string& key, int64_t otherwise) {
  std::ifstream file(path);
  for (std::string word, rest; file >> word; std::getline(file, rest))
    if (int64_t number = 0; word == key && file >> number) return number;
  return otherwise;
}

class Tightest {
 public:
  void consider(int64_t bytes, const std::string& whose) {
    if (!found || bytes < found->bytes) found = MemoryLimit{std::max<int64_t>(0, bytes), whose};
  }
  std::optional<MemoryLimit> found;
};

/// Each group may have a limit. Pages of files do not count as used: they are dropped when memory is asked for.
void consider_control_groups(Tightest& tightest, const std::string& root) {
  for (const ControlGroup& group : control_groups("memory", root)) {
    const auto limit = number_in(group.folder / (group.unified ? "memory.max" : "memory.limit_in_bytes"));
    const auto used = number_in(group.folder / (group.unified ? "memory.current" : "memory.usage_in_bytes"));
    if (!limit || !used) continue;
    int64_t cache = 0;
    for (const char* key : {"inactive_file", "active_file"})
      cache += entry_of(group.folder / "memory.stat", (group.unified ? "" : "total_") + std::string(key), 0);
    tightest.consider(*limit - std::max<int64_t>(0, *used - cache),
                      fmt::format("the control group `{}` with its limit of {} has", group.name, bytes_text(*limit)));
  }
}

std::optional<int64_t> number_of_variable(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  int64_t number = 0;
  const char* end = text + std::string_view(text).size();
  return std::from_chars(text, end, number).ptr == end && number > 0 ? std::optional(number) : std::nullopt;
}

/// Slurm kills a job that takes more than it has asked for, if the cluster is set up so.
void consider_slurm(Tightest& tightest) {
  constexpr int64_t mebi = 1 << 20;
  if (const auto node = number_of_variable("SLURM_MEM_PER_NODE"))
    tightest.consider(*node * mebi, fmt::format("Slurm (SLURM_MEM_PER_NODE={}) grants", *node));
  const auto cpu = number_of_variable("SLURM_MEM_PER_CPU"), cpus = number_of_variable("SLURM_CPUS_ON_NODE");
  if (cpu && cpus)
    tightest.consider(*cpu * *cpus * mebi, fmt::format("Slurm (SLURM_MEM_PER_CPU={} for {} CPUs) grants", *cpu, *cpus));
}

}  // namespace

std::optional<MemoryLimit> memory_limit(const std::string& root) {
  Tightest tightest;
  if (const int64_t kib = entry_of(root + "/proc/meminfo", "MemAvailable:", -1); kib >= 0)
    tightest.consider(kib << 10, "this host has");
  consider_control_groups(tightest, root);
  consider_slurm(tightest);
  return tightest.found;
}

}  // namespace meshrt
