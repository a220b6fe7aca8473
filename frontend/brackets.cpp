// Balancing brackets, so that one forgotten bracket is one message and the rest of the file is still checked.
#include <algorithm>
#include <optional>
#include <utility>

#include "frontend/tokens.h"

namespace mesh {

namespace {

class Balancer {
 public:
  Balancer(std::vector<Token> tokens, const SourceMap& sources, std::vector<Span>& reported, DiagnosticSink& sink)
      : tokens_(std::move(tokens)), sources_(sources), reported_(reported), sink_(sink) {
    const auto count = [&](const char* text) {
      return std::count_if(tokens_.begin(), tokens_.end(), [&](const Token& token) { return token.is(text); });
    };
    closing_missing_ = count("{") > count("}");
    opening_missing_ = count("}") - count("{");
  }

  std::vector<Token> run() {
    for (std::size_t at = 0; at < tokens_.size(); ++at) {
      const Token& token = tokens_[at];
      if (at == 0 || tokens_[at - 1].kind == TokenKind::newline) start_line(at);
      if (headless_ == at) put_missing_brace(token);
      if (token.is("(") || token.is("[")) {
        open_.push_back(token);
      } else if (token.is("{")) {
        if (in_parentheses()) close_parentheses(token, "`{` comes first");
        open_.push_back(token);
      } else if (token.is(")") || token.is("]")) {
        if (!close(at)) continue;
      } else if (token.is("}")) {
        if (!close_brace(at)) continue;
      } else if (token.is(";") && in_parentheses()) {
        semicolon(at);
        continue;
      } else if (token.kind == TokenKind::end) {
        close_everything(token, {});
      }
      out_.push_back(token);
    }
    return std::move(out_);
  }

 private:
  bool in_parentheses() const { return !open_.empty() && !open_.back().is("{"); }

  static const char* closer(const Token& opener) { return opener.is("(") ? ")" : opener.is("[") ? "]" : "}"; }

  // Puts the closing bracket of the innermost open one behind the last token that is not a newline.
  void put_closer() {
    auto at = out_.end();
    while (at != out_.begin() && (at - 1)->kind == TokenKind::newline) --at;
    const std::uint32_t end = (at - 1)->span.end;
    const Token& opener = open_.back();
    out_.insert(at, Token{TokenKind::symbol, 0, closer(opener), Span{opener.span.file, end, end}});
    open_.pop_back();
  }

  // A new statement or declaration although brackets are open: they were forgotten.
  void start_line(std::size_t at) {
    if (in_parentheses() && starts_statement(tokens_, at)) {
      close_parentheses(tokens_[at], "a new statement seems to start here");
    }
    if (closing_missing_ && !open_.empty() && starts_declaration(tokens_, at)) {
      close_everything(tokens_[at], "a new declaration seems to start here");
    }
    if (opening_missing_ > 0 && opens_body(tokens_, at)) headless_ = missing_brace(at);
  }

  // The newline where the `{` of a head should have stood; nothing if it is there.
  std::optional<std::size_t> missing_brace(std::size_t head) const {
    int nest = 0;
    for (std::size_t at = head; tokens_[at].kind != TokenKind::end; ++at) {
      const Token& token = tokens_[at];
      if (token.is("{") || token.is("}")) return std::nullopt;
      nest += token.is("(") || token.is("[") ? 1 : token.is(")") || token.is("]") ? -1 : 0;
      const Token& next = tokens_[at + 1];
      if (token.kind != TokenKind::newline || nest > 0 || next.is("->") || next.is("{")) continue;
      const bool needed = !tokens_[head].is("minimize") || next.is("*") || next.is("**");  // groups are optional
      return needed ? std::optional(at) : std::nullopt;
    }
    return std::nullopt;
  }

  void put_missing_brace(const Token& newline) {
    const Span place{newline.span.file, newline.span.begin, newline.span.begin};
    const Token brace{TokenKind::symbol, 0, "{", place};
    sink_.error("E0102", place, "missing `{` at the end of the line").here("expected `{`").fix(place, " {");
    open_.push_back(brace);
    out_.push_back(brace);
    headless_.reset();
    --opening_missing_;
  }

  // Closes ( and [ up to the next brace.
  void close_parentheses(const Token& evidence, const char* label) {
    const Token innermost = open_.back();
    auto error = sink_.error("E0102", innermost.span, "unclosed `{}`", innermost.text);
    error.here("never closed");
    std::uint32_t begin = innermost.span.begin;
    constexpr int shown = 4;
    for (int count = 1; in_parentheses(); ++count) {
      if (count > 1 && count <= shown) error.label(open_.back().span, "never closed either");
      begin = open_.back().span.begin;
      put_closer();
    }
    if (evidence.kind != TokenKind::end) error.label(evidence.span, label);
    reported_.push_back(Span{innermost.span.file, begin, evidence.span.begin});
  }

  void close_everything(const Token& evidence, const char* label) {
    if (in_parentheses()) close_parentheses(evidence, label);
    if (open_.empty()) return;
    const Token opener = suspect_ ? suspect_->first : open_.back();
    auto error = sink_.error("E0102", opener.span, "unclosed `{`");
    error.here("never closed");
    if (suspect_) error.label(suspect_->second.span, "this `}` closes it, but is indented to close an outer one");
    if (evidence.kind != TokenKind::end) error.label(evidence.span, label);
    reported_.push_back(opener.span);
    suspect_.reset();
    while (!open_.empty()) {
      if (in_parentheses()) close_parentheses(evidence, label);
      if (!open_.empty()) put_closer();
    }
  }

  bool leave_out(const Token& token) {
    sink_.error("E0103", token.span, "unmatched `{}`", token.text).here("closes nothing");
    reported_.push_back(Span{token.span.file, statement_begin(), token.span.end});
    return false;
  }

  // Whether the line closes the innermost open bracket behind `at`, by as many brackets as it opens there and one more.
  bool closed_later(std::size_t at) const {
    const Token& opener = open_.back();
    int nest = 1;
    for (++at; nest > 0 && !tokens_[at].ends_statement(); ++at) {
      nest += tokens_[at].is(opener.text) ? 1 : tokens_[at].is(closer(opener)) ? -1 : 0;
    }
    return nest == 0;
  }

  // `)` or `]`. False: leave it out.
  bool close(std::size_t at) {
    const Token& token = tokens_[at];
    std::size_t match = open_.size();
    while (match > 0 && !open_[match - 1].is("{") && !token.is(closer(open_[match - 1]))) --match;
    const bool found = match > 0 && !open_[match - 1].is("{");
    if (found) {
      while (open_.size() > match) {
        reported_.push_back(cover(open_.back().span, token.span));
        sink_.error("E0102", open_.back().span, "unclosed `{}`", open_.back().text)
            .here("never closed")
            .label(token.span, "`{}` comes first", token.text);
        put_closer();
      }
      open_.pop_back();
      return true;
    }
    if (!in_parentheses() || closed_later(at)) return leave_out(token);
    sink_.error("E0103", token.span, "`{}` does not match `{}`", token.text, open_.back().text)
        .here("expected `{}`", closer(open_.back()))
        .label(open_.back().span, "opened here")
        .fix(token.span, closer(open_.back()));
    reported_.push_back(cover(open_.back().span, token.span));
    out_.push_back(Token{TokenKind::symbol, 0, closer(open_.back()), token.span});
    open_.pop_back();
    return false;
  }

  // False: leave it out.
  bool close_brace(std::size_t at) {
    const Token& token = tokens_[at];
    if (in_parentheses()) close_parentheses(token, "`}` comes first");
    if (open_.empty()) {
      auto error = sink_.error("E0103", token.span, "unmatched `}`");
      error.here("closes nothing");
      if (last_outer_) {
        error.label(last_outer_->second.span, "closes the `{{` of line {} already",
                    sources_.begin(last_outer_->first.span).line);
        reported_.push_back(Span{token.span.file, last_outer_->second.span.end, token.span.end});
      } else {
        reported_.push_back(token.span);
      }
      return false;
    }
    const Token opener = open_.back();
    const bool first_of_line = at > 0 && tokens_[at - 1].kind == TokenKind::newline;
    const bool same_line = line_of(opener) == line_of(token);
    if (opening_missing_ > 0 && !first_of_line && !same_line && ends_line(opener)) {
      --opening_missing_;
      return leave_out(token);  // braces over several lines are closed by a line of their own
    }
    open_.pop_back();
    if (closing_missing_ && !suspect_ && !open_.empty() && first_of_line && indent(token) < indent(opener)) {
      suspect_ = {opener, token};
    }
    if (open_.empty()) last_outer_ = {opener, token};
    return true;
  }

  // `f(a; b)` is a slip for a comma, `f(a; b = 2` an unclosed bracket.
  void semicolon(std::size_t at) {
    const Token& token = tokens_[at];
    const auto rest = tokens_.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    const auto stop = std::find_if(rest, tokens_.end(), [&](const Token& next) {
      return next.ends_statement() || next.is("{") || next.is("}") || next.is(closer(open_.back()));
    });
    if (stop->is(closer(open_.back()))) {
      sink_.error("E0101", token.span, "`;` inside `{}{}`", open_.back().text, closer(open_.back()))
          .here("expected `,`")
          .fix(token.span, ",");
      reported_.push_back(token.span);
      out_.push_back(Token{TokenKind::symbol, 0, ",", token.span});
    } else {
      close_parentheses(token, "the statement ends here");
      out_.push_back(token);
    }
  }

  // Where the statement begins that is being read.
  std::uint32_t statement_begin() const {
    auto at = out_.end();
    while (at != out_.begin() && !(at - 1)->ends_statement() && !(at - 1)->is("{") && !(at - 1)->is("}")) --at;
    if (out_.empty()) return 0;
    return at == out_.end() ? out_.back().span.end : at->span.begin;
  }

  std::uint32_t line_of(const Token& token) const { return sources_.line_of(token.span.file, token.span.begin); }

  // Of the line that the token stands in.
  std::size_t indent(const Token& token) const {
    return sources_.line_text(token.span.file, line_of(token)).find_first_not_of(" \t");
  }

  // But for spaces and a comment.
  bool ends_line(const Token& token) const {
    const std::string_view rest = sources_.text(token.span.file).substr(token.span.end);
    const std::size_t next = rest.find_first_not_of(" \t\r");
    return next == std::string_view::npos || rest[next] == '\n' || rest.substr(next, 2) == "//";
  }

  std::vector<Token> tokens_;
  const SourceMap& sources_;
  std::vector<Span>& reported_;
  DiagnosticSink& sink_;

  std::vector<Token> out_;
  std::vector<Token> open_;
  std::ptrdiff_t opening_missing_ = 0;                 // how many more `}` than `{` the file has
  bool closing_missing_ = false;                       // the file has more `{` than `}`
  std::optional<std::size_t> headless_;                // the newline where a `{` is missing
  std::optional<std::pair<Token, Token>> suspect_;     // a pair of braces whose indents differ
  std::optional<std::pair<Token, Token>> last_outer_;  // the last pair of braces that stood in no other
};

}  // namespace

std::vector<Token> balance_brackets(std::vector<Token> tokens, const SourceMap& sources, std::vector<Span>& reported,
                                    DiagnosticSink& sink) {
  return Balancer(std::move(tokens), sources, reported, sink).run();
}

}  // namespace mesh
