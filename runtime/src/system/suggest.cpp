#include "system/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace meshrt {

namespace {

// Damerau-Levenshtein distance (neighbours swapped count 1), three rows of the table at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string without_capitals(std::string_view word) {
  std::string text(word);
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

}  // namespace

std::string closest_word(std::string_view word, const std::vector<std::string>& known) {
  size_t best = std::max<size_t>(1, word.size() / 3) + 1;
  std::string closest;
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(without_capitals(word), without_capitals(candidate));
    if (distance >= best) continue;
    best = distance;
    closest = candidate;
  }
  return closest;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known, std::string_view kind) {
  const std::string closest = closest_word(word, known);
  if (!closest.empty()) return fmt::format("did you mean `{}`?", closest);
  return fmt::format("known {}: {}", kind, fmt::join(known, ", "));
}

Suggestions suggestions(const std::string& text, const std::vector<std::string>& words,
                        const std::vector<std::string>& known, std::string_view kind) {
  Suggestions made;
  bool far = false;
  for (const std::string& word : words) {
    const std::string closest = closest_word(word, known);
    far |= closest.empty();
    made.lines.push_back(fmt::format(fmt::runtime(text), word) +
                         (closest.empty() ? "" : fmt::format(": did you mean `{}`?", closest)));
  }
  if (!far) return made;
  constexpr size_t shown = 12;
  const size_t some = std::min(shown, known.size());
  made.known = fmt::format("known {}: {}", kind, fmt::join(known.begin(), known.begin() + std::ptrdiff_t(some), ", "));
  if (known.size() > some) made.known += fmt::format(" and {} more", known.size() - some);
  return made;
}

}  // namespace meshrt
