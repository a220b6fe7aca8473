#include "launch/cpus.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "system/control_groups.h"

namespace meshrt {

namespace {

/// A mask with room for so many CPUs: cpu_set_t ends at 1024.
struct Mask {
  explicit Mask(int cpus) : room(cpus), set(CPU_ALLOC(cpus)), bytes(CPU_ALLOC_SIZE(cpus)) { CPU_ZERO_S(bytes, set); }
  ~Mask() { CPU_FREE(set); }
  Mask(const Mask&) = delete;
  Mask& operator=(const Mask&) = delete;

  int room;
  cpu_set_t* set;
  size_t bytes;
};

bool read_number(std::istringstream& from, int& number) {
  char text[8] = {};
  int length = 0;
  while (length < 7 && from.peek() >= '0' && from.peek() <= '9') text[length++] = static_cast<char>(from.get());
  return length > 0 && std::from_chars(text, text + length, number).ec == std::errc();
}

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The CPUs that are threads of one core with `cpu`, itself included; nothing: not told.
std::optional<std::vector<int>> siblings_of(int cpu, const std::string& root) {
  const std::string folder = fmt::format("{}/sys/devices/system/cpu/cpu{}/topology/", root, cpu);
  for (const char* name : {"core_cpus_list", "thread_siblings_list"})  // the newer name, the older one
    if (const auto cpus = parse_cpu_list(first_line(folder + name)); cpus && !cpus->empty()) return cpus;
  return std::nullopt;
}

/// Microseconds of processor time per period; nothing: as much as there is.
std::optional<double> quota_of(const ControlGroup& group) {
  // Version 2: "max 100000" or "200000 100000"; version 1: two files, -1 for no limit.
  std::string text = first_line(group.folder / "cpu.max");
  if (!group.unified)
    text = first_line(group.folder / "cpu.cfs_quota_us") + " " + first_line(group.folder / "cpu.cfs_period_us");
  std::istringstream words(text);
  double quota = 0, period = 0;
  if (words >> quota >> period && quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

}  // namespace

std::vector<int> cpus_in_mask() {
  constexpr int most = 1 << 20;
  for (int room = 1024; room <= most; room *= 2) {
    const Mask mask(room);
    if (sched_getaffinity(0, mask.bytes, mask.set) == 0) {
      std::vector<int> cpus;
      for (int cpu = 0; cpu < room; ++cpu)
        if (CPU_ISSET_S(cpu, mask.bytes, mask.set)) cpus.push_back(cpu);
      return cpus;
    }
    if (errno != EINVAL) break;  // EINVAL: the kernel's masks are longer
  }
  return {};
}

void keep_to(const std::vector<int>& cpus) {
  const Mask mask(std::ranges::max(cpus) + 1);
  for (const int cpu : cpus) CPU_SET_S(cpu, mask.bytes, mask.set);
  sched_setaffinity(0, mask.bytes, mask.set);  // only a hint: without it everything works
}

std::optional<std::vector<int>> parse_cpu_list(const std::string& text) {
  constexpr int most = 1 << 20;  // of numbers: a list may be made up
  std::vector<int> cpus;
  std::istringstream from(text);
  while (from.peek() != EOF) {
    int first = 0, last = 0;
    if (!cpus.empty() && from.get() != ',') return std::nullopt;
    if (!read_number(from, first)) return std::nullopt;
    last = first;
    if (from.peek() == '-' && (from.get(), !read_number(from, last))) return std::nullopt;
    if (last < first || last >= most || (!cpus.empty() && first <= cpus.back())) return std::nullopt;
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::string cpu_list_text(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(cpus[i]);
    if (end - i > 1) text += "-" + std::to_string(cpus[end - 1]);
    i = end;
  }
  return text;
}

Cores cores_of(const std::vector<int>& cpus, const std::string& root) {
  std::map<int, std::vector<int>> by_first;  // of the CPUs of the core, allowed or not
  for (const int cpu : cpus) by_first[siblings_of(cpu, root).value_or(std::vector<int>{cpu}).front()].push_back(cpu);
  Cores cores;
  for (auto& [first, threads] : by_first) cores.push_back(std::move(threads));
  return cores;
}

std::vector<int> spread(const Cores& cores) {
  std::vector<int> cpus;
  bool any = true;
  for (size_t thread = 0; any; ++thread) {
    any = false;
    for (const std::vector<int>& core : cores)
      if (thread < core.size()) cpus.push_back(core[thread]), any = true;
  }
  return cpus;
}

std::optional<int> cpu_quota(const std::string& root) {
  std::optional<double> least;
  for (const ControlGroup& group : control_groups("cpu", root))
    if (const auto cpus = quota_of(group); cpus && (!least || *cpus < *least)) least = cpus;
  if (!least) return std::nullopt;
  constexpr double most = 1 << 20;
  return std::max(1, static_cast<int>(std::min(*least, most)));
}

CpuRoom cpu_room() {
  const std::vector<int> mask = cpus_in_mask();
  const size_t cpus = std::max<size_t>(1, mask.size());
  return {cpus, std::max<size_t>(1, cores_of(mask).size()),
          std::min(cpus, static_cast<size_t>(cpu_quota().value_or(static_cast<int>(cpus))))};
}

bool binds(Binding binding, size_t threads, const CpuRoom& room) {
  if (binding == Binding::automatic) return (threads == room.cpus || threads == room.cores) && threads <= room.quota;
  return binding == Binding::core && threads <= room.cpus;
}

int allowed_cpus() { return static_cast<int>(cpu_room().quota); }

int allowed_cores() {
  const CpuRoom room = cpu_room();
  return static_cast<int>(std::min(room.cores, room.quota));
}

}  // namespace meshrt
