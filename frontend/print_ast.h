// Syntax tree -> source text, in one canonical form: what `meshc ir SPEC ast` shows. Comments are not kept.
//
// Parsing the text again and printing it again gives the same text.
#pragma once

#include <functional>
#include <string>

#include "frontend/ast.h"

namespace mesh {

std::string print(const ast::File& file);

// One declaration or statement, with a newline at its end; `indent` counts spaces.
std::string print(const ast::Decl& decl, int indent = 0);
std::string print(const ast::Statement& statement, int indent = 0);
std::string print(const ast::Rule& rule, int indent = 0);

// Without a newline.
std::string print(const ast::Expr& expr);
std::string print(const ast::Type& type);
std::string print(const ast::Item& item);

// An expression with other words in place of its names, for messages: `heads * head_dim` as `12 * 64`. Names in square
// brackets stay.
std::string print(const ast::Expr& expr, const std::function<std::string(const ast::Path&)>& path);

}  // namespace mesh
