// Wording of syntax errors. The parser knows what it expected; people want to know what they got wrong.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "frontend/ast.h"
#include "frontend/diagnostic.h"
#include "frontend/tokens.h"

namespace mesh {

// A place where the parser could not go on.
struct SyntaxFault {
  const std::vector<Token>& tokens;
  std::size_t first = 0;              // the first token of the statement
  std::size_t at = 0;                 // the token that does not fit
  std::vector<std::string> expected;  // as the grammar spells them: "'='", "ID", "NL"; empty: not known
  std::string rule;                   // the innermost rule of the grammar
  std::string list;                   // the list that the statement stands in: file, body, rules, limits, groups
};

// Reports one error: one of the usual slips with its cure, or else what was expected and what was found.
void report_syntax_fault(const SyntaxFault& fault, DiagnosticSink& sink);

// Mistakes that the grammar lets pass because it would only say "unexpected": reported when the node is built.
void check_syntax(const ast::Item& item, DiagnosticSink& sink);
void check_syntax(const ast::Compare& compare, DiagnosticSink& sink);
void check_syntax(const ast::Number& number, DiagnosticSink& sink);
void check_syntax(const ast::Attributes& attributes, DiagnosticSink& sink);
void check_syntax(const std::vector<ast::Argument>& arguments, DiagnosticSink& sink);
void check_whole(const ast::Number& shift, DiagnosticSink& sink);      // the 1 of `x + 1`
void check_callee(const ast::Expr& callee, DiagnosticSink& sink);      // reports: it cannot be called
void check_version(const ast::Number& version, DiagnosticSink& sink);  // the 1 of `language 1`
// `language 1` stands above all else in its file.
void check_place_of_version(const std::vector<ast::Decl>& decls, DiagnosticSink& sink);

}  // namespace mesh
