#include "frontend/tokens.h"

#include <algorithm>
#include <array>

#include "frontend/utf8.h"

namespace mesh {

namespace {

template <std::size_t n>
bool one_of(const Token& token, const std::array<std::string_view, n>& texts) {
  return token.kind != TokenKind::string && std::find(texts.begin(), texts.end(), token.text) != texts.end();
}

// What people type for another character, and what they mean.
std::string_view advice(std::string_view text) {
  struct Advice {
    std::string_view text, help;
  };
  static constexpr std::array<Advice, 17> table = {{
      {"→", "an arrow is written `->`"},
      {"←", "an update is written `<-`"},
      {"×", "a product is written `*`"},
      {"·", "a product is written `*`"},
      {"−", "minus is written `-`"},
      {"≤", "write `<=`"},
      {"≥", "write `>=`"},
      {"≠", "write `!=`"},
      {"“", "strings stand in straight quotes: \"...\""},
      {"”", "strings stand in straight quotes: \"...\""},
      {"'", "strings stand in double quotes: \"...\""},
      {"&", "write `and`"},
      {"|", "write `or`"},
      {"!", "write `not`"},
      {"~", "an initial value follows `=`: `param w : real[d] = normal(std: 0.02)`"},
      {"#", "a comment starts with `//`"},
      {"@", "a contraction is written `dot[dim](a, b)`"},
  }};
  for (const Advice& one : table) {
    if (text.substr(0, one.text.size()) == one.text) return one.help;
  }
  return {};
}

}  // namespace

bool Arranged::was_reported(Span span) const {
  return std::any_of(reported.begin(), reported.end(),
                     [&](const Span& one) { return one.begin < span.end && span.begin < one.end; });
}

Arranged arrange(std::vector<Token> tokens, const SourceMap& sources, DiagnosticSink& sink) {
  Arranged result;
  report_characters(tokens, result.reported, sink);
  result.tokens = join_lines(
      balance_brackets(brace_colon_bodies(std::move(tokens), sources, sink), sources, result.reported, sink));
  if (too_deep(result.tokens, sink)) result.tokens.erase(result.tokens.begin(), result.tokens.end() - 1);
  return result;
}

bool too_deep(const std::vector<Token>& tokens, DiagnosticSink& sink) {
  constexpr int brackets_limit = 200, operators_limit = 1000;
  static constexpr std::array<std::string_view, 15> operators = {
      "+", "-", "*", "/", "%", "^", "==", "!=", "<=", ">=", "<", ">", "and", "or", "not"};
  int brackets = 0, count = 0;
  for (const Token& token : tokens) {
    const bool opens = one_of(token, std::array<std::string_view, 3>{"(", "[", "{"});
    const bool closes = one_of(token, std::array<std::string_view, 3>{")", "]", "}"});
    brackets += opens ? 1 : closes ? -1 : 0;
    count = token.ends_statement() || token.is("{") || token.is("}") ? 0 : count + (one_of(token, operators) ? 1 : 0);
    if (brackets > brackets_limit) {
      sink.error("E0119", token.span, "brackets nest more than {} deep", brackets_limit);
      return true;
    }
    if (count > operators_limit) {
      sink.error("E0119", token.span, "a statement has more than {} operators", operators_limit)
          .help("name a part of it: `part = ...`");
      return true;
    }
  }
  return false;
}

void report_characters(const std::vector<Token>& tokens, std::vector<Span>& reported, DiagnosticSink& sink) {
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    const Token& token = tokens[at];
    if (token.kind == TokenKind::unterminated) {
      reported.push_back(token.span);
      sink.error("E0105", token.span, "unterminated string")
          .here("the closing `\"` is missing")
          .help("a string stands on one line");
    } else if (token.kind == TokenKind::unknown) {
      Span span = token.span;
      std::string_view text = token.text;
      while (tokens[at + 1].kind == TokenKind::unknown && tokens[at + 1].span.begin == span.end) {
        span = cover(span, tokens[++at].span);
        text = std::string_view(text.data(), span.size());
      }
      reported.push_back(span);
      auto error =
          sink.error("E0104", span, "unknown character{} `{}`", token.span == span ? "" : "s", printable(text));
      if (const std::string_view help = advice(text); !help.empty()) error.help(std::string(help));
    }
  }
}

bool starts_declaration(const std::vector<Token>& tokens, std::size_t at) {
  if (tokens[at].kind != TokenKind::word || at + 2 >= tokens.size()) return false;
  const Token &word = tokens[at], &next = tokens[at + 1], &after = tokens[at + 2];
  if (word.is("import")) return next.kind == TokenKind::string || (next.kind == TokenKind::word && !after.is("="));
  if (next.kind != TokenKind::word) return false;
  if (one_of(word, std::array<std::string_view, 4>{"model", "mesh", "precision", "budget"})) return after.is("{");
  if (word.is("block")) return after.is("(") || after.is("[");
  return (word.is("layout") && after.is("on")) || (word.is("const") && after.is("="));
}

bool starts_statement(const std::vector<Token>& tokens, std::size_t at) {
  const Token& first = tokens[at];
  if (first.kind != TokenKind::word) return false;
  if (first.is("return") || first.is("repeat") || starts_declaration(tokens, at)) return true;

  // Two names side by side never stand in an expression, but for these.
  static constexpr std::array<std::string_view, 7> between = {"and", "or", "not", "as", "stride", "dilate", "step"};
  static constexpr std::array<std::string_view, 11> openers = {
      "input", "output", "param", "state", "dim", "metric", "manual", "minimize", "generate", "const", "require"};
  if (one_of(first, openers) && tokens[at + 1].kind == TokenKind::word && !one_of(tokens[at + 1], between)) return true;

  // `q = ...`, `y, a = ...`, `u <- ...`, `heads, ffn -> ...`
  std::size_t next = at + 1;
  while ((tokens[next].is(",") || tokens[next].is("*")) && tokens[next + 1].kind == TokenKind::word) next += 2;
  if (tokens[next].is("<-") || tokens[next].is("->")) return true;
  std::size_t previous = at;
  while (previous > 0 && tokens[previous - 1].kind == TokenKind::newline) --previous;
  const bool goes_on = previous > 0 && one_of(tokens[previous - 1], std::array<std::string_view, 3>{",", "(", "["});
  return tokens[next].is("=") && !goes_on;
}

bool opens_foreign_body(const std::vector<Token>& tokens, std::size_t at) {
  const bool opener = one_of(tokens[at], foreign_functions) || one_of(tokens[at], foreign_loops);
  return tokens[at].kind == TokenKind::word && opener && tokens[at + 1].kind == TokenKind::word;
}

bool opens_body(const std::vector<Token>& tokens, std::size_t at) {
  static constexpr std::array<std::string_view, 4> named = {"model", "mesh", "precision", "budget"};
  static constexpr std::array<std::string_view, 5> scopes = {"params", "grads", "optimizer", "activations", "state"};
  const Token& first = tokens[at];
  const auto ends = [&](std::size_t after) {
    const bool colon = tokens[after].is(":") && tokens[after + 1].ends_statement();
    return colon || tokens[after].kind == TokenKind::newline;
  };
  const auto word = [&](std::size_t after) { return tokens[after].kind == TokenKind::word; };
  if (one_of(first, scopes)) return ends(at + 1);
  if (!word(at) || !word(at + 1)) return false;
  if (one_of(first, named)) return ends(at + 2);
  if (first.is("layout")) return tokens[at + 2].is("on") && word(at + 3) && ends(at + 4);
  return first.is("repeat") || first.is("manual") || first.is("block") || first.is("minimize");
}

std::vector<Token> join_lines(std::vector<Token> tokens) {
  static constexpr std::array<std::string_view, 19> after = {
      ",", "->", "=", "<-", "+", "-", "/", "%", "^", "==", "!=", "<=", ">=", "<", ">", "*", "and", "or", "not"};
  static constexpr std::array<std::string_view, 17> before = {
      "->", "=", "<-", "+", "-", "/", "%", "^", "==", "!=", "<=", ">=", "<", ">", "*", "and", "or"};
  // A star that is a pattern or a size may end a line or open one: `data: *`, `layer.*`, `*.gain { ... }`.
  static constexpr std::array<std::string_view, 6> before_pattern = {":", ".", ",", "{", "over", "of"};
  static constexpr std::array<std::string_view, 3> after_pattern = {".", ",", "{"};

  std::vector<Token> kept;
  int nest = 0;  // inside ( ) and [ ]
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    const Token& token = tokens[at];
    if (token.is("(") || token.is("[")) ++nest;
    if (token.is(")") || token.is("]")) --nest;
    if (token.kind == TokenKind::newline) {
      if (nest > 0 || kept.empty() || kept.back().ends_statement()) continue;
      std::size_t next = at + 1;
      while (tokens[next].kind == TokenKind::newline) ++next;
      const bool opens_pattern = tokens[next].is("*") && one_of(tokens[next + 1], after_pattern);
      const bool ends_pattern = kept.back().is("*") && kept.size() > 1 && one_of(kept[kept.size() - 2], before_pattern);
      if (one_of(kept.back(), after) && !ends_pattern) continue;
      if (tokens[next].is("{")) continue;
      if (one_of(tokens[next], before) && !opens_pattern && !kept.back().is("}")) continue;
    }
    kept.push_back(token);
  }
  return kept;
}

}  // namespace mesh
