// glob.cpp: path patterns of layouts and parameter groups.
#include "codegen/graph/glob.h"

#include "meshrt/path_pattern.h"

namespace mesh {

Glob Glob::parse(const std::string& text) {
  Glob glob{{""}};
  for (const char c : text) {
    if (c == '.') glob.parts.emplace_back();
    else glob.parts.back() += c;
  }
  return glob;
}

bool Glob::matches(const std::string& path) const { return meshrt::path_matches(parts, path); }

std::string Glob::text() const {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : ".") + part;
  return all;
}

}  // namespace mesh
