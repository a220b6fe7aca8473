#include "frontend/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <tuple>

namespace mesh {

namespace {

std::string without_capitals(std::string_view word) {
  std::string text(word);
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

}  // namespace

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
  // Edits with capitals aside, whether the length is another, edits: of two as near, the one of this length, since
  // `adamW` is more likely `adamw` than `adam`.
  std::tuple<std::size_t, bool, std::size_t> least{std::max<std::size_t>(1, word.size() / 3) + 1, false, 0};
  constexpr std::size_t longest = 100;  // of a name that somebody mistyped
  if (word.size() > longest) return best;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > 2 * longest) continue;
    const std::size_t distance = edit_distance(without_capitals(word), without_capitals(candidate));
    const std::tuple rank(distance, candidate.size() != word.size(), edit_distance(word, candidate));
    if (rank < least && distance < candidate.size()) {
      best = candidate;
      least = rank;
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
