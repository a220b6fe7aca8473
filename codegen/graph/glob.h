// glob.h: path patterns of layouts, of parameter groups and of `fetch`.
#pragma once
#include <string>
#include <vector>

namespace mesh {

/// A path pattern: `*` is one part, `**` any number, `f` every call of an instance `f` and `f#2` the second one.
struct Glob {
  std::vector<std::string> parts;
  /// Of a path with dots between its parts.
  static Glob parse(const std::string& text);
  bool matches(const std::string& path) const;
  std::string text() const;
};

}  // namespace mesh
