// lines.h: a file as the formatter sees it: lines of tokens with what surrounds each token.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "frontend/source.h"
#include "frontend/tokens.h"

namespace mesh::format {

/// What the innermost bracket around a token holds.
enum class Around : std::uint8_t {
  file,
  statements,  // of a model, block, repeat or manual region
  rules,       // of a layout, and scopes inside
  ports,       // `(x : real[..., d])` of a block
  other        // parentheses, square brackets, attributes, meshes, groups, limits
};

struct Placed {
  Token token;
  Around around = Around::file;
  int depth = 0;       // brackets around it
  bool unary = false;  // a sign
};

struct Line {
  std::vector<Placed> tokens;
  std::string comment;               // with its slashes; empty: none
  std::uint32_t comment_column = 0;  // in the source
  int indent = 0;                    // braces around it
  Around around = Around::file;      // of its first token
  bool continued = false;            // goes on with the statement of the line before
  bool blank_before = false;

  bool is_comment() const { return tokens.empty(); }
};

/// The lines of a file without syntax errors; blank ones are only noted.
std::vector<Line> lines_of(FileId, const SourceMap&);

}  // namespace mesh::format
