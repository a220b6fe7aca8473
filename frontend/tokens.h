// What happens to a file's tokens between the lexer and the parser: the steps that a grammar cannot say well.
//
// The parser sees balanced brackets, and only those newlines that end a statement. Whatever is wrong with a bracket, a
// string or a character is reported here, once, with both ends of the story; `Arranged::reported` tells the parser
// which stretches of text not to complain about again.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "frontend/diagnostic.h"
#include "frontend/source.h"

namespace mesh {

enum class TokenKind { word, number, string, symbol, newline, unterminated, unknown, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::uint32_t type = 0;  // the lexer's own number; 0 for a bracket that was put in
  std::string_view text;
  Span span;

  bool is(std::string_view symbol) const { return text == symbol && kind != TokenKind::string; }
  bool ends_statement() const { return kind == TokenKind::newline || kind == TokenKind::end || is(";"); }
};

struct Arranged {
  std::vector<Token> tokens;   // ends with a token of kind `end`
  std::vector<Span> reported;  // where something was already reported

  bool was_reported(Span span) const;  // overlaps one of them
};

// Takes the lexer's tokens, without comments, up to and with the end.
Arranged arrange(std::vector<Token> tokens, const SourceMap& sources, DiagnosticSink& sink);

// ---- the steps of `arrange`, in their order -----------------------------------------------------

// Reports unknown characters (neighbours together) and strings without an end.
void report_characters(const std::vector<Token>& tokens, std::vector<Span>& reported, DiagnosticSink& sink);

// Puts braces around bodies that a colon and their indent make, `model Tiny:`, and reports that once.
std::vector<Token> brace_colon_bodies(std::vector<Token> tokens, const SourceMap& sources, DiagnosticSink& sink);

// Balances ( ) [ ] { }: leaves out a stray closing bracket, closes one that is never closed where a new statement seems
// to start, and reports both.
std::vector<Token> balance_brackets(std::vector<Token> tokens, const SourceMap& sources, std::vector<Span>& reported,
                                    DiagnosticSink& sink);

// Drops the newlines that end nothing: inside ( ) and [ ], after an operator, a comma or an arrow, and before a line
// that starts with one or with `{`.
std::vector<Token> join_lines(std::vector<Token> tokens);

// Reports, once, what would nest too deep for a parser that calls itself.
bool too_deep(const std::vector<Token>& tokens, DiagnosticSink& sink);

// Whether the tokens at `at`, the first of a line, look like a new statement, although a bracket is open.
bool starts_statement(const std::vector<Token>& tokens, std::size_t at);

// Whether the tokens at `at`, the first of a line, can only be a declaration: `model Gpt {`, `layout a on b`.
bool starts_declaration(const std::vector<Token>& tokens, std::size_t at);

// What other languages begin a function or a loop with.
inline constexpr std::array<std::string_view, 5> foreign_functions = {"def", "fn", "func", "function", "class"};
inline constexpr std::array<std::string_view, 3> foreign_loops = {"for", "while", "loop"};

// Whether the tokens at `at`, the first of a line, are the head that another language has: `class Tiny(Module)`, `for i
// in`.
bool opens_foreign_body(const std::vector<Token>& tokens, std::size_t at);

// Whether the tokens at `at`, the first of a line, are the head of a `{ }`: `model Gpt`, `layout a on b`, `repeat
// layer`. All but `repeat`, `manual` and `block` must be alone on their line, but for a `:` in place of the `{`.
bool opens_body(const std::vector<Token>& tokens, std::size_t at);

}  // namespace mesh
