// machine.cpp: processors and memory that this process may use. See proc(5), cgroups(7).
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "codegen/commands/doctor/findings.h"
#include "codegen/commands/measure/host.h"
#include "meshrt/launch.h"

namespace mesh {

namespace {

constexpr double gib = 1024.0 * 1024.0 * 1024.0;

Finding processors() {
  const int allowed = meshrt::allowed_cpus(), cores = meshrt::allowed_cores();
  const auto online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  std::string of = allowed < online ? fmt::format("{} of {} (affinity or a cgroup's cpu.max)", allowed, online)
                                    : std::to_string(allowed);
  if (cores < allowed) of += fmt::format(", threads of {} cores: a rank works best on a core of its own", cores);
  if (allowed > 1) return {Health::good, "processors", of, ""};
  return {Health::slow, "processors", of, "a rank needs one each: more ranks than processors take turns"};
}

Finding memory() {
  const auto [total, limited] = host_memory();
  const std::string text = fmt::format("{:.1f} GiB{}", total / gib, limited ? " (a cgroup's memory.max)" : "");
  if (total >= gib) return {Health::good, "memory", text, ""};
  return {Health::slow, "memory", text, "compare with `meshc plan`, which tells what a rank will hold"};
}

/// Ranks of a host share an arena in a file without a name (memfd_create).
Finding shared_memory() {
  const int file = memfd_create("meshc-doctor", MFD_CLOEXEC);
  const bool works = file >= 0 && ftruncate(file, 1 << 20) == 0;
  if (file >= 0) close(file);
  if (works) return {Health::good, "shared memory", "memfd_create works", ""};
  return {Health::missing, "shared memory", "memfd_create fails",
          "a sandbox forbids it: allow the system call, or run on one rank"};
}

/// "always [madvise] never" -> "madvise"
std::string chosen(const std::string& line) {
  const size_t begin = line.find('['), end = line.find(']');
  return begin == std::string::npos || end == std::string::npos ? "" : line.substr(begin + 1, end - begin - 1);
}

Finding huge_pages() {
  const std::string pages = chosen(first_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  const std::string shared = chosen(first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
  const std::string text = fmt::format("{} for private, {} for shared memory", pages.empty() ? "none" : pages,
                                       shared.empty() ? "none" : shared);
  if (pages == "always" || pages == "madvise") return {Health::good, "huge pages", text, ""};
  return {Health::slow, "huge pages", text,
          "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root) helps large models"};
}

Finding open_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string text = fmt::format("at most {}", limit.rlim_cur);
  if (limit.rlim_cur >= 1024) return {Health::good, "open files", text, ""};
  return {Health::slow, "open files", text, "ulimit -n 4096: a launcher holds one socket for every rank"};
}

}  // namespace

std::vector<Finding> look_at_machine() { return {processors(), memory(), shared_memory(), huge_pages(), open_files()}; }

}  // namespace mesh
