#include "codegen/commands/explanations.h"

#include <algorithm>

namespace mesh {

std::vector<Explanation> explanations() {
  std::vector<Explanation> all;
  for (const std::string_view file : explanation_files()) {
    for (size_t at = 0; at < file.size();) {
      const size_t end = std::min(file.find('\n', at), file.size());
      const std::string_view line = file.substr(at, end - at);
      at = end + 1;
      if (line.starts_with("# E") && line.size() > 8)
        all.push_back({std::string(line.substr(2, 5)), std::string(line.substr(8)), ""});
      else if (line.starts_with("# ")) all.push_back({std::string(line.substr(2)), "", ""});
      else if (!all.empty() && !(all.back().text.empty() && line.empty())) all.back().text += std::string(line) + "\n";
    }
  }
  for (Explanation& one : all)
    while (one.text.ends_with('\n')) one.text.pop_back();
  std::ranges::sort(all, {}, &Explanation::code);
  return all;
}

}  // namespace mesh
