// Text -> syntax tree.
#pragma once

#include <string>
#include <vector>

#include "frontend/ast.h"
#include "frontend/diagnostic.h"
#include "frontend/source.h"
#include "frontend/tokens.h"

namespace mesh {

// A file's tokens, with every newline, and beside them its comments.
struct Lexed {
  std::vector<Token> tokens;  // ends with a token of kind `end`
  std::vector<ast::Comment> comments;
};

Lexed lex(FileId file, const SourceMap& sources);

// Parses a file of the map. Syntax errors go to the sink, several in one run; what did not parse is left out of the
// tree and the rest is there. Errors have codes E01xx.
Ast parse(FileId file, const SourceMap& sources, DiagnosticSink& sink);

// For tests of the grammar: each place of the file that it can read in two ways, as text. Nothing for a good grammar.
std::vector<std::string> find_ambiguities(FileId file, const SourceMap& sources);

}  // namespace mesh
