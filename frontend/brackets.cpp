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
    braces_missing_ = count("{") > count("}");
  }

  std::vector<Token> run() {
    for (std::size_t at = 0; at < tokens_.size(); ++at) {
      const Token& token = tokens_[at];
      if (at > 0 && tokens_[at - 1].kind == TokenKind::newline) start_line(at);
      if (token.is("(") || token.is("[")) {
        open_.push_back(token);
      } else if (token.is("{")) {
        if (in_parentheses()) close_parentheses(token, "`{` comes first");
        open_.push_back(token);
      } else if (token.is(")") || token.is("]")) {
        if (!close(token)) continue;
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
    if (braces_missing_ && !open_.empty() && starts_declaration(tokens_, at)) {
      close_everything(tokens_[at], "a new declaration seems to start here");
    }
  }

  // Closes ( and [ up to the next brace.
  void close_parentheses(const Token& evidence, const char* label) {
    const Token innermost = open_.back();
    auto error = sink_.error("E0102", innermost.span, "unclosed `{}`", innermost.text);
    error.here("never closed");
    std::uint32_t begin = innermost.span.begin;
    for (bool first = true; in_parentheses(); first = false) {
      if (!first) error.label(open_.back().span, "never closed either");
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

  // `)` or `]`. False: leave it out.
  bool close(const Token& token) {
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
    if (!in_parentheses()) {
      sink_.error("E0103", token.span, "unmatched `{}`", token.text).here("closes nothing");
      reported_.push_back(token.span);
      return false;
    }
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
    open_.pop_back();
    const bool first_of_line = at > 0 && tokens_[at - 1].kind == TokenKind::newline;
    if (braces_missing_ && !suspect_ && !open_.empty() && first_of_line && indent(token) < indent(opener)) {
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

  // Of the line that the token stands in.
  std::size_t indent(const Token& token) const {
    return sources_.line_text(token.span.file, sources_.begin(token.span).line).find_first_not_of(" \t");
  }

  std::vector<Token> tokens_;
  const SourceMap& sources_;
  std::vector<Span>& reported_;
  DiagnosticSink& sink_;

  std::vector<Token> out_;
  std::vector<Token> open_;
  bool braces_missing_ = false;                        // the file has more `{` than `}`
  std::optional<std::pair<Token, Token>> suspect_;     // a pair of braces whose indents differ
  std::optional<std::pair<Token, Token>> last_outer_;  // the last pair of braces that stood in no other
};

}  // namespace

std::vector<Token> balance_brackets(std::vector<Token> tokens, const SourceMap& sources, std::vector<Span>& reported,
                                    DiagnosticSink& sink) {
  return Balancer(std::move(tokens), sources, reported, sink).run();
}

}  // namespace mesh
