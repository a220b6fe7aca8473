// The library of the language, `import std.nn`: the texts of frontend/std/*.mesh, built into the compiler.
#pragma once

#include <string_view>
#include <vector>

namespace mesh {

struct LibraryModule {
  std::string_view name;  // "std.nn"
  std::string_view text;
};

// All of them, by name.
const std::vector<LibraryModule>& library();

}  // namespace mesh
