// explanations.h: the long texts of diagnostics, from explain/*.md: a heading `# E0301 title` each, of a lint its name.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mesh {

struct Explanation {
  std::string code, title, text;
};

/// All of them, by code; those of lints, which have no title, last.
std::vector<Explanation> explanations();

/// The files as they are; written by codegen/embed.sh.
const std::vector<std::string_view>& explanation_files();

}  // namespace mesh
