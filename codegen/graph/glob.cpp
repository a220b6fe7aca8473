// glob.cpp: path patterns of layouts and parameter groups.
#include "codegen/graph/glob.h"

namespace mesh {
namespace {

/// Whether parts[p..] match the path from `at` on (npos: nothing is left).
bool matches_from(const std::vector<std::string>& parts, size_t p, const std::string& path, size_t at) {
  const auto next_part = [&](size_t from) {
    const size_t dot = path.find('.', from);
    return dot == std::string::npos ? std::string::npos : dot + 1;
  };
  if (p == parts.size()) return at == std::string::npos;
  if (parts[p] == "**") {
    for (size_t from = at;; from = next_part(from)) {
      if (matches_from(parts, p + 1, path, from)) return true;
      if (from == std::string::npos) return false;
    }
  }
  if (at == std::string::npos) return false;
  const size_t after = next_part(at);
  const std::string part = path.substr(at, after == std::string::npos ? after : after - at - 1);
  const bool same = parts[p] == "*" || parts[p] == part || parts[p] == part.substr(0, part.find('#'));
  return same && matches_from(parts, p + 1, path, after);
}

}  // namespace

Glob Glob::parse(const std::string& text) {
  Glob glob{{""}};
  for (const char c : text) {
    if (c == '.') glob.parts.emplace_back();
    else glob.parts.back() += c;
  }
  return glob;
}

bool Glob::matches(const std::string& path) const {
  return matches_from(parts, 0, path, path.empty() ? std::string::npos : 0);
}

std::string Glob::text() const {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : ".") + part;
  return all;
}

}  // namespace mesh
