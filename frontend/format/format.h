// format.h: a .mesh file with one look. The formatter works on lines of tokens, not on the tree: where a line ends,
// what stands in one line, and every comment stay the author's; spaces, indentation, blank lines and columns are set.
#pragma once
#include <optional>
#include <string>

#include "frontend/diagnostic.h"
#include "frontend/source.h"

namespace mesh {

/// The text of a file, formatted; formatting it again changes nothing. Nothing when the file has syntax errors, which
/// go to the sink.
std::optional<std::string> format_text(FileId file, const SourceMap& sources, DiagnosticSink& sink);

}  // namespace mesh
