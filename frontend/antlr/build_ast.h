// Copies ANTLR's parse tree to the syntax tree.
#pragma once

#include "frontend/ast.h"
#include "frontend/diagnostic.h"
#include "MeshParser.h"

namespace mesh {

// The tree of a parse whose tokens carry byte offsets of `file` as their start and stop. What failed to parse is left
// out. Mistakes that the grammar lets pass are reported.
Ast build_ast(FileId file, syntax::MeshParser::FileContext* tree, DiagnosticSink& sink);

}  // namespace mesh
