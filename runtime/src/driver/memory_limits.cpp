#include "driver/memory_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "driver/nodes.h"
#include "meshrt/failure.h"
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

/// A group and those around it, each of which may have a limit. Files that were read and can be dropped do not count as
/// used.
void consider_groups(Tightest& tightest, const fs::path& top, const std::string& group, const char* limit_file,
                     const char* used_file, const char* cache_key) {
  for (fs::path path = fs::path(group).relative_path();; path = path.parent_path()) {
    const fs::path folder = top / path;
    const auto limit = number_in(folder / limit_file), used = number_in(folder / used_file);
    if (limit && used)
      tightest.consider(
          *limit - (*used - std::min(*used, entry_of(folder / "memory.stat", cache_key, 0))),
          fmt::format("the control group `/{}` with its limit of {} has", path.string(), bytes_text(*limit)));
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
      consider_groups(tightest, root + "/sys/fs/cgroup", group, "memory.max", "memory.current", "inactive_file");
    else if (controllers.find("memory") != std::string_view::npos)
      consider_groups(tightest, root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes",
                      "total_inactive_file");
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

/// What helps most, by what takes most.
std::string way_out(const std::string& largest) {
  if (largest == "activation" || largest == "workspace" || largest == "gradient")
    return "a smaller batch, `batch -> AXIS { accumulate: N }`, or a layout that splits more of the activations, makes "
           "it less";
  if (largest == "parameter" || largest == "optimizer")
    return "a layout that splits parameters and optimizer state (`params { DIM -> AXIS }`) over more ranks makes it "
           "less";
  return "more hosts, or a layout that splits more, make it less for each";
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

std::string memory_problem(const ProgramInfo& info, int local_ranks, const MemoryLimit& limit) {
  const auto rank_bytes = static_cast<int64_t>(info.arena_bytes + info.own_bytes);
  if (rank_bytes * local_ranks <= limit.bytes) return "";
  std::string kinds, largest;
  int64_t most = -1;
  for (const auto& [kind, bytes] : info.memory) {
    kinds += fmt::format("{}{} {}", kinds.empty() ? "\na rank holds: " : ", ", kind, bytes_text(bytes));
    if (bytes > most) most = bytes, largest = kind;
  }
  return fmt::format("{} of `{}` {} on this host, {} each, but {} {}{}\n{}",
                     local_ranks == 1 ? "1 rank" : fmt::format("{} ranks", local_ranks), info.name,
                     fmt::format("need{} {}", local_ranks == 1 ? "s" : "", bytes_text(rank_bytes * local_ranks)),
                     bytes_text(rank_bytes), limit.whose, bytes_text(limit.bytes), kinds, way_out(largest));
}

void check_memory(Rank& rank, const ProgramInfo& info) {
  const std::vector<uint64_t> hosts = hosts_of_ranks(rank);
  const auto local = static_cast<int>(std::ranges::count(hosts, hosts[rank.rank()]));
  const std::optional<MemoryLimit> limit = memory_limit();
  if (!limit) return;
  if (const std::string problem = memory_problem(info, local, *limit); !problem.empty())
    throw Failure(Cause::memory, problem);
}

}  // namespace meshrt
