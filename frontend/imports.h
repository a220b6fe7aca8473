// Loading a spec with everything that it imports.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "frontend/ast.h"
#include "frontend/diagnostic.h"
#include "frontend/source.h"

namespace mesh {

// Every file of one compilation. Names are global: the declarations of all files together make the program.
struct SourceProgram {
  std::vector<Ast> files;  // each after those that it imports, once
  std::size_t spec = 0;    // the index of the first file that was asked for
};

// Loads and parses the spec `paths[0]`, further files (layouts) behind it, and what they import: `import std.nn` is
// built in, `import "file.mesh"` is relative to the file that says so. A path that the map already holds is taken from
// there (tests, editors), `-` is the standard input.
//
// Reports, besides syntax errors: a file that cannot be read (E0130), an unknown library module (E0131), files that
// import each other in a circle (E0132), a file that is imported or given twice (E0133). Always gives the files that
// could be read; `files` is empty if the spec could not.
SourceProgram load_program(const std::vector<std::string>& paths, SourceMap& sources, DiagnosticSink& sink);

}  // namespace mesh
