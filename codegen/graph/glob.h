// glob.h: path patterns of layouts, of parameter groups and of `fetch`.
#pragma once
#include <string>
#include <vector>

namespace mesh {

/// A path pattern: `*` is one part, `**` any number.
struct Glob {
  std::vector<std::string> parts;
  bool matches(const std::string& path) const;
  std::string text() const;
};

}  // namespace mesh
