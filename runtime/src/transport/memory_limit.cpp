#include "transport/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string_view>

#include "meshrt/log.h"

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

/// A group and those around it, each of which may have a limit. Pages of files (`cache_keys` of memory.stat) do not
/// count as used: they are dropped when memory is asked for.
void consider_groups(Tightest& tightest, const fs::path& top, const std::string& group, const char* limit_file,
                     const char* used_file, std::initializer_list<const char*> cache_keys) {
  for (fs::path path = fs::path(group).relative_path();; path = path.parent_path()) {
    const fs::path folder = top / path;
    const auto limit = number_in(folder / limit_file), used = number_in(folder / used_file);
    if (limit && used) {
      int64_t cache = 0;
      for (const char* key : cache_keys) cache += entry_of(folder / "memory.stat", key, 0);
      tightest.consider(
          *limit - std::max<int64_t>(0, *used - cache),
          fmt::format("the control group `/{}` with its limit of {} has", path.string(), bytes_text(*limit)));
    }
    if (path.empty()) return;
  }
}

void consider_control_groups(Tightest& tightest, const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty())
      consider_groups(tightest, root + "/sys/fs/cgroup", group, "memory.max", "memory.current",
                      {"inactive_file", "active_file"});
    else if (controllers.find("memory") != std::string_view::npos)
      consider_groups(tightest, root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes",
                      {"total_inactive_file", "total_active_file"});
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
