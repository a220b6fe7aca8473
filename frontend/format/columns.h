// columns.h: lines that say the same kind of thing have their marks (`:`, `=`, `->`, comments) in one column.
#pragma once
#include <string>
#include <vector>

#include "frontend/format/lines.h"

namespace mesh::format {

/// A line as text that grows by padding: `at[i]` is where token i begins.
struct Text {
  std::string text;
  std::vector<std::size_t> at;

  /// Moves token i and what follows to the right.
  void pad(std::size_t token, std::size_t spaces);
};

/// Dims, inputs, outputs, parameters, states, constants and rules of a layout that follow each other get their marks in
/// one column. Bindings do where the author had them so.
void align_marks(const std::vector<Line>&, std::vector<Text>&, const SourceMap&);

/// Comments behind code keep their column where the code leaves room; those of neighbouring lines share one.
void append_comments(const std::vector<Line>&, std::vector<Text>&);

}  // namespace mesh::format
