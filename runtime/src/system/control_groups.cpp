#include "system/control_groups.h"

#include <fstream>
#include <sstream>

namespace meshrt {

namespace {

namespace fs = std::filesystem;

/// Whether a list such as "cpu,cpuacct" has `word`.
bool lists(const std::string& words, const std::string& word) {
  std::istringstream parts(words);
  for (std::string part; std::getline(parts, part, ',');)
    if (part == word) return true;
  return false;
}

void add_with_those_around(std::vector<ControlGroup>& groups, const fs::path& top, const std::string& innermost,
                           bool unified) {
  for (fs::path path = fs::path(innermost).relative_path();; path = path.parent_path()) {
    groups.push_back({top / path, "/" + path.string(), unified});
    if (path.empty()) return;
  }
}

}  // namespace

std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& root) {
  std::vector<ControlGroup> groups;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "4:cpu,cpuacct:/job" of version 1, "0::/job" of version 2
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    const fs::path top = root + "/sys/fs/cgroup";
    if (controllers.empty()) add_with_those_around(groups, top, group, true);
    else if (lists(controllers, controller)) add_with_those_around(groups, top / controller, group, false);
  }
  return groups;
}

}  // namespace meshrt
