// How the parser goes on after an error.
//
// It recovers by statements: what does not fit ends its statement (declaration, rule, limit, group), which is left out,
// and parsing goes on behind the next newline or `;` at the same depth of braces. There is no guessing inside of a
// statement, hence one error each.
#pragma once

#include <antlr4-runtime.h>

#include <memory>

#include "frontend/diagnostic.h"
#include "frontend/tokens.h"

namespace mesh {

// The strategy for a parser that reads exactly `arranged.tokens`. Both arguments must outlive it.
std::shared_ptr<antlr4::ANTLRErrorStrategy> recover_by_statements(const Arranged& arranged, DiagnosticSink& sink);

}  // namespace mesh
