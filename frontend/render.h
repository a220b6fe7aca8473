// Diagnostics as people read them on a terminal, and as JSON lines for tools.
//
//   error[E0106]: expected `->`, found `>`
//     --> gpt.mesh:58:9
//   58 |   batch > data
//      |         ^ did you mean `->`?
//      = note: a rule is written `dims -> axes`
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "frontend/diagnostic.h"
#include "frontend/source.h"

namespace mesh {

struct RenderOptions {
  bool colour = false;           // ANSI escapes
  int width = 140;               // columns of source that are shown; longer lines are cut around what they are about
  std::size_t error_limit = 20;  // what `render_all` shows before it only counts
};

// One diagnostic as text, with the lines of source that it is about. Ends with a newline.
std::string render_text(const Diagnostic& diagnostic, const SourceMap& sources, const RenderOptions& options = {});

// Everything that the sink holds, an empty line after each, and a last line that counts what was left out.
std::string render_all(const DiagnosticSink& sink, const SourceMap& sources, const RenderOptions& options = {});

// One diagnostic as one line of JSON, without a newline:
//   level, code, message, spans[{file, line, col, end_line, end_col, label, primary}], notes[], helps[],
//   fixes[{file, line, col, end_line, end_col, text}]
// Lines and columns start at 1, columns count characters, the end is one past the last character.
std::string render_json(const Diagnostic& diagnostic, const SourceMap& sources);
nlohmann::ordered_json diagnostic_json(const Diagnostic& diagnostic, const SourceMap& sources);

}  // namespace mesh
