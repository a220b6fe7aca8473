#include "frontend/format/lines.h"

#include <map>
#include <set>

#include "frontend/parse.h"

namespace mesh::format {
namespace {

/// Walks through the tokens with the brackets that are open, and what each statement began with.
class Brackets {
 public:
  Around around() const { return open_.empty() ? Around::file : open_.back().around; }
  int depth() const { return static_cast<int>(open_.size()); }
  int braces() const {
    int count = 0;
    for (const Open& one : open_) count += one.brace ? 1 : 0;
    return count;
  }

  void statement_ends() { head().clear(); }

  void pass(const Token& token) {
    const bool opens = token.is("(") || token.is("[") || token.is("{");
    if (token.is(")") || token.is("]") || token.is("}")) {
      if (!open_.empty()) open_.pop_back();
      if (token.is("}")) statement_ends();
    } else if (opens) {
      open_.push_back({kind_of(token), token.is("{"), {}});
    } else {
      if (head().empty()) head() = token.text;
      if (token.is(";")) statement_ends();
    }
  }

 private:
  struct Open {
    Around around;
    bool brace;
    std::string head;  // the first word of the statement that is being read inside
  };

  std::string& head() { return open_.empty() ? file_head_ : open_.back().head; }

  Around kind_of(const Token& token) {
    const std::string& of = head();
    if (token.is("{")) {
      if (around() == Around::rules)
        return of == "params" || of == "grads" || of == "optimizer" || of == "activations" || of == "state" ||
                       of == "tensor" || of == "in"
                   ? Around::rules
                   : Around::other;
      if (of == "model" || of == "block" || of == "repeat" || of == "manual") return Around::statements;
      return of == "layout" ? Around::rules : Around::other;
    }
    return token.is("(") && of == "block" && around() == Around::file ? Around::ports : Around::other;
  }

  std::vector<Open> open_;
  std::string file_head_;
};

bool is_operator(const Token& token) {
  static const std::set<std::string_view> words{"and", "or", "not", "return"};
  if (token.kind == TokenKind::word) return words.count(token.text) > 0;
  return token.kind == TokenKind::symbol && !token.is(")") && !token.is("]") && !token.is("}") && !token.is("...");
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return std::string(text);
}

}  // namespace

std::vector<Line> lines_of(FileId file, const SourceMap& sources) {
  Lexed lexed = lex(file, sources);
  DiagnosticSink unheard;
  // Where a statement ends: the newlines that are left when lines have been joined.
  std::set<std::uint32_t> ends;
  for (const Token& token : arrange(lexed.tokens, sources, unheard).tokens)
    if (token.kind == TokenKind::newline) ends.insert(token.span.begin);

  std::map<std::uint32_t, Line> lines;  // by number
  Brackets brackets;
  const Token* before = nullptr;
  bool ended = true;
  for (const Token& token : lexed.tokens) {
    if (token.kind == TokenKind::newline) {
      if (ends.count(token.span.begin) > 0) {
        ended = true;
        brackets.statement_ends();
      }
      continue;
    }
    if (token.kind == TokenKind::end) break;
    Line& line = lines[sources.line_of(file, token.span.begin)];
    const bool closes = token.is(")") || token.is("]") || token.is("}");
    if (line.tokens.empty()) {
      line.continued = !ended && before != nullptr && !before->is("{") && !before->is("}") && !before->is(";") &&
                       !token.is("}") && !token.is("{");
      line.indent = brackets.braces() - (token.is("}") ? 1 : 0);
      line.around = brackets.around();
    }
    const bool sign = (token.is("-") || token.is("+")) &&
                      (before == nullptr || (ended && line.tokens.empty()) || is_operator(*before));
    if (closes) brackets.pass(token);
    line.tokens.push_back({token, brackets.around(), brackets.depth(), sign});
    if (!closes) brackets.pass(token);
    before = &token;
    ended = false;
  }
  for (const ast::Comment& comment : lexed.comments) {
    const std::uint32_t number = sources.line_of(file, comment.span.begin);
    Line& line = lines[number];
    line.comment = trimmed(sources.text(comment.span));
    line.comment_column = sources.begin(comment.span).column - 1;
  }

  // Comments alone in a line lie as deep as what follows; before a closing brace, as what it closes.
  std::vector<Line> result;
  std::uint32_t last = 0;
  for (auto& [number, line] : lines) {
    line.blank_before = last != 0 && number > last + 1;
    last = number;
    result.push_back(std::move(line));
  }
  for (std::size_t i = result.size(); i-- > 0;) {
    if (!result[i].is_comment() || i + 1 == result.size()) continue;
    const Line& next = result[i + 1];
    const bool closing = !next.is_comment() && next.tokens.front().token.is("}");
    result[i].indent = next.indent + (closing ? 1 : 0);
  }
  return result;
}

}  // namespace mesh::format
