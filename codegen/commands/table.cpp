#include "codegen/commands/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace mesh {

std::string in_columns(const std::vector<std::vector<std::string>>& rows) {
  size_t most = 0;
  for (const auto& row : rows) most = std::max(most, row.size());
  std::vector<size_t> widths(most);
  for (const auto& row : rows) {
    const size_t filled = row.size() < rows.front().size() ? row.size() - 1 : row.size();
    for (size_t i = 0; i < filled; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += i + 1 < row.size() ? fmt::format("{:{}}  ", row[i], widths[i]) : row[i];
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace mesh
