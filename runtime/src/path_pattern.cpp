#include "meshrt/path_pattern.h"

#include <vector>

namespace meshrt {

namespace {

/// Whether parts[p..] match the path from `at` on (npos: nothing is left).
bool matches_from(std::span<const std::string> parts, size_t p, std::string_view path, size_t at) {
  const auto next_part = [&](size_t from) {
    const size_t dot = path.find('.', from);
    return dot == std::string_view::npos ? dot : dot + 1;
  };
  if (p == parts.size()) return at == std::string_view::npos;
  if (parts[p] == "**") {
    for (size_t from = at;; from = next_part(from)) {
      if (matches_from(parts, p + 1, path, from)) return true;
      if (from == std::string_view::npos) return false;
    }
  }
  if (at == std::string_view::npos) return false;
  const size_t after = next_part(at);
  const std::string_view part = path.substr(at, after == std::string_view::npos ? after : after - at - 1);
  const bool same = parts[p] == "*" || parts[p] == part || parts[p] == part.substr(0, part.find('#'));
  return same && matches_from(parts, p + 1, path, after);
}

}  // namespace

bool path_matches(std::span<const std::string> pattern, std::string_view path) {
  return matches_from(pattern, 0, path, path.empty() ? std::string_view::npos : 0);
}

bool path_matches(std::string_view pattern, std::string_view path) {
  std::vector<std::string> parts{""};
  for (const char c : pattern) {
    if (c == '.') parts.emplace_back();
    else parts.back() += c;
  }
  return path_matches(parts, path);
}

}  // namespace meshrt
