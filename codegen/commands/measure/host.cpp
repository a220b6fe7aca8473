#include "codegen/commands/measure/host.h"

#include <unistd.h>

#include <fstream>

namespace mesh {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

HostMemory host_memory() {
  const double all = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const std::string limit = first_line("/sys/fs/cgroup/memory.max");
  const bool limited = !limit.empty() && limit != "max" && std::stod(limit) < all;
  return {limited ? std::stod(limit) : all, limited};
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const size_t at = line.find_first_not_of(": \t", 10); at != std::string::npos) return line.substr(at);
  return "CPU";
}

}  // namespace mesh
