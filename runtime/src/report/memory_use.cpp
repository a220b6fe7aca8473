#include "report/memory_use.h"

#include <sys/mman.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

namespace meshrt {

namespace {

struct MappedArea {
  std::string path;  // empty, [heap], /usr/lib/..., /memfd:... (deleted)
  bool executable = false;
  int64_t resident = 0, anonymous = 0;  // bytes
};

/// "7f12-7f13 r-xp 00000000 08:01 1234   /usr/lib/libm.so.6", else nothing of it.
bool begins_area(std::string_view line, MappedArea& area) {
  const size_t space = line.find(' '), dash = line.find('-');
  if (dash > space || space == std::string_view::npos || line.find(':') < space) return false;
  area.executable = line.substr(space).starts_with(" r-x");
  const size_t path = line.find_first_of("/[", space);
  area.path = path == std::string_view::npos ? "" : line.substr(path);
  return true;
}

/// Of "Rss:    1234 kB".
int64_t bytes_in(std::string_view line) {
  const size_t at = line.find_first_of("0123456789");
  int64_t count = 0;
  if (at != std::string_view::npos) std::from_chars(line.data() + at, line.data() + line.size(), count);
  return count * 1024;
}

std::vector<MappedArea> areas_of(const std::string& smaps) {
  std::vector<MappedArea> areas;
  std::istringstream lines(smaps);
  for (std::string line; std::getline(lines, line);) {
    MappedArea begun;
    if (begins_area(line, begun)) areas.push_back(begun);
    else if (areas.empty()) continue;
    else if (line.starts_with("Rss:")) areas.back().resident = bytes_in(line);
    else if (line.starts_with("Anonymous:")) areas.back().anonymous = bytes_in(line);
  }
  return areas;
}

}  // namespace

MemoryUse memory_use_of(const std::string& smaps) {
  const std::vector<MappedArea> areas = areas_of(smaps);
  std::set<std::string> libraries;
  for (const MappedArea& area : areas)
    if (area.executable && area.path.starts_with('/')) libraries.insert(area.path);
  MemoryUse use;
  for (const MappedArea& area : areas) {
    const bool gone = area.path.ends_with(" (deleted)") || area.path.starts_with("/dev/shm/");  // shared memory
    if (!area.path.starts_with('/')) use.own += area.anonymous;
    else if (libraries.contains(area.path)) use.libraries += area.resident;
    else if (!gone) use.files += area.resident;
  }
  return use;
}

MemoryUse memory_use() {
  std::ostringstream text;
  text << std::ifstream("/proc/self/smaps").rdbuf();
  return memory_use_of(text.str());
}

int64_t resident(const void* begin, size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((bytes + page - 1) / page);
  if (bytes == 0 || mincore(const_cast<void*>(begin), bytes, pages.data()) != 0) return 0;
  int64_t count = 0;
  for (const unsigned char one : pages) count += one & 1;
  return count * static_cast<int64_t>(page);
}

}  // namespace meshrt
