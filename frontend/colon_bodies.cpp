// Bodies by a colon and their indent, as Python has them, become bodies in braces: one message, and what stands in them
// is still checked.
#include <algorithm>
#include <optional>
#include <utility>

#include "frontend/tokens.h"

namespace mesh {

namespace {

class ColonBodies {
 public:
  ColonBodies(std::vector<Token> tokens, const SourceMap& sources) : tokens_(std::move(tokens)), sources_(sources) {}

  std::vector<Token> run(DiagnosticSink& sink) {
    std::optional<std::size_t> colon;
    for (std::size_t at = 0; at < tokens_.size(); ++at) {
      const Token& token = tokens_[at];
      const bool begins_line = (at == 0 || tokens_[at - 1].kind == TokenKind::newline) && !token.ends_statement();
      if (begins_line) close_bodies(at);
      if (token.kind == TokenKind::end) close_everything();
      if (const auto found = begins_line ? colon_of_head(at) : std::nullopt) {
        colon = found;
        // Of `class Tiny:` the colon is the least that is wrong, and the parser tells the rest.
        if (!opens_foreign_body(tokens_, at))
          heads_.push_back({cover(token.span, tokens_[*found - 1].span), tokens_[*found].span});
        open_.push_back({indent(token), first_indent(*found) <= indent(token)});
      }
      out_.push_back(at == colon ? Token{TokenKind::symbol, 0, "{", token.span} : token);
    }
    if (!heads_.empty()) report(sink);
    return std::move(out_);
  }

 private:
  struct Body {
    std::size_t indent;  // of its head
    bool flat;           // no deeper than its head
  };
  struct Head {
    Span span, colon;
  };

  // The `:` that ends the line, or the lines, of a head that begins at `at`.
  std::optional<std::size_t> colon_of_head(std::size_t at) const {
    if (!opens_body(tokens_, at) && !opens_foreign_body(tokens_, at)) return std::nullopt;
    int nest = 0;
    for (;; ++at) {
      const Token& token = tokens_[at];
      nest += token.is("(") || token.is("[") ? 1 : token.is(")") || token.is("]") ? -1 : 0;
      const bool goes_on = token.kind == TokenKind::newline && (nest > 0 || tokens_[at + 1].is("->"));
      if (token.is("{") || token.is("}")) return std::nullopt;
      if (token.ends_statement() && !goes_on) return tokens_[at - 1].is(":") ? std::optional(at - 1) : std::nullopt;
    }
  }

  // Of the first line of the body behind a colon.
  std::size_t first_indent(std::size_t colon) const {
    std::size_t at = colon + 1;
    while (tokens_[at].kind == TokenKind::newline) ++at;
    return tokens_[at].kind == TokenKind::end ? 0 : indent(tokens_[at]);
  }

  std::size_t indent(const Token& token) const {
    const std::uint32_t line = sources_.line_of(token.span.file, token.span.begin);
    return sources_.line_text(token.span.file, line).find_first_not_of(" \t");
  }

  // Those that the line at `at` does not belong to. A `}` below the head closes the body as it is.
  void close_bodies(std::size_t at) {
    const Token& token = tokens_[at];
    while (!open_.empty()) {
      const auto [head, flat] = open_.back();
      const bool brace = token.is("}") && indent(token) == head;
      const bool goes_on =
          flat ? !brace && !opens_body(tokens_, at) && !starts_declaration(tokens_, at) : indent(token) > head;
      if (goes_on) return;
      if (brace) return open_.pop_back();
      put_closer();
    }
  }

  void close_everything() {
    while (!open_.empty()) put_closer();
  }

  // Behind the last token that is not a newline.
  void put_closer() {
    auto at = out_.end();
    while ((at - 1)->kind == TokenKind::newline) --at;
    const Span last = (at - 1)->span;
    out_.insert(at, Token{TokenKind::symbol, 0, "}", Span{last.file, last.end, last.end}});
    open_.pop_back();
  }

  void report(DiagnosticSink& sink) const {
    constexpr std::size_t shown = 4;
    const std::string_view head = sources_.text(heads_.front().span);
    auto error = sink.error("E0101", heads_.front().colon, "expected `{`, found `:`");
    error.here("expected `{`");
    for (std::size_t i = 1; i < std::min(shown, heads_.size()); ++i) error.label(heads_[i].colon, "here too");
    error.help("a body stands in braces, whatever its indent: `{}{{ ... }}`",
               head.find('\n') == std::string_view::npos ? fmt::format("{} ", head) : "");
  }

  std::vector<Token> tokens_;
  const SourceMap& sources_;

  std::vector<Token> out_;
  std::vector<Body> open_;
  std::vector<Head> heads_;
};

}  // namespace

std::vector<Token> brace_colon_bodies(std::vector<Token> tokens, const SourceMap& sources, DiagnosticSink& sink) {
  return ColonBodies(std::move(tokens), sources).run(sink);
}

}  // namespace mesh
