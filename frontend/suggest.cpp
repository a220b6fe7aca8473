#include "frontend/suggest.h"

#include <fmt/format.h>

#include <algorithm>

namespace mesh {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // distance[i][j]: of the first i letters of a and the first j letters of b
  std::vector<std::vector<std::size_t>> distance(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) distance[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) distance[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      distance[i][j] = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1, distance[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
      }
    }
  }
  return distance[a.size()][b.size()];
}

std::optional<std::string> did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  constexpr std::size_t longest = 100;  // of a name that somebody mistyped
  if (word.size() > longest) return best;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > 2 * longest) continue;
    const std::size_t distance = edit_distance(word, candidate);
    // Of two as near, the one of this length: `adamW` is more likely `adamw` than `adam`.
    const bool fits =
        best && distance == best_distance && candidate.size() == word.size() && best->size() != word.size();
    if ((distance < best_distance || fits) && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string some_of(std::vector<std::string> names) {
  constexpr std::size_t enough = 10;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), enough); ++i) text += (i == 0 ? "`" : ", `") + names[i] + "`";
  return names.size() > enough ? text + fmt::format(" and {} more", names.size() - enough) : text;
}

}  // namespace mesh
