#include "frontend/format/columns.h"

#include <algorithm>
#include <optional>
#include <set>

#include "frontend/utf8.h"

namespace mesh::format {
namespace {

/// What a line is for alignment: lines of one kind that follow each other form a run.
struct Kind {
  std::string name;
  std::vector<std::string_view> marks;  // in order
  bool as_written = false;              // in one run only where the marks stood in one column
};

const std::optional<std::size_t> none;

/// The first token `mark` of the statement itself, not of brackets inside.
std::optional<std::size_t> find_mark(const Line& line, std::string_view mark) {
  for (std::size_t i = 1; i < line.tokens.size(); ++i)
    if (line.tokens[i].token.is(mark) && line.tokens[i].depth == line.tokens[0].depth) return i;
  return none;
}

std::optional<Kind> kind_of(const std::vector<Line>& lines, std::size_t at) {
  const Line& line = lines[at];
  if (line.is_comment() || line.continued || (at + 1 < lines.size() && lines[at + 1].continued)) return {};
  if (find_mark(line, ";")) return {};
  const std::string head(line.tokens[0].token.text);
  if (line.around == Around::rules) return find_mark(line, "->") ? std::optional(Kind{"rule", {"->"}}) : std::nullopt;
  if (line.around != Around::file && line.around != Around::statements) return {};
  const bool declares = line.tokens.size() > 1 && line.tokens[1].token.kind == TokenKind::word;
  if (declares && head == "dim" && !find_mark(line, ",")) return Kind{head, {"="}};
  if (declares && head == "const") return Kind{head, {"="}};
  if (declares && (head == "input" || head == "output")) return Kind{head, {":"}};
  if (declares && (head == "param" || head == "state")) return Kind{head, {":", "="}};
  if (declares && head == "metric") return Kind{head, {"="}, true};
  if (!declares && find_mark(line, "<-")) return Kind{"update", {"<-"}, true};
  const std::optional<std::size_t> equals = find_mark(line, "=");
  if (!declares && equals) return Kind{"bind", {"="}, true};
  return {};
}

std::size_t source_column(const Line& line, std::size_t token, const SourceMap& sources) {
  const Span span = line.tokens[token].token.span;
  return sources.begin(span).column;
}

std::size_t width(std::string_view text) {
  std::size_t characters = 0;
  for (std::size_t at = 0; at < text.size(); ++characters) at += decode_utf8(text, at).bytes;
  return characters;
}

/// Lines [begin, end), all of one kind: puts `mark` into one column in each stretch of neighbours that have it.
void align(const std::vector<Line>& lines, std::vector<Text>& texts, std::size_t begin, std::size_t end,
           std::string_view mark) {
  for (std::size_t from = begin; from < end;) {
    std::size_t to = from, column = 0;
    for (; to < end; ++to) {
      const auto token = find_mark(lines[to], mark);
      if (!token) break;
      column = std::max(column, width(std::string_view(texts[to].text).substr(0, texts[to].at[*token])));
    }
    for (std::size_t i = from; i < to; ++i) {
      const std::size_t token = *find_mark(lines[i], mark);
      const std::size_t here = width(std::string_view(texts[i].text).substr(0, texts[i].at[token]));
      texts[i].pad(token, column - here);
    }
    from = std::max(to, from + 1);
  }
}

}  // namespace

void Text::pad(std::size_t token, std::size_t spaces) {
  text.insert(at[token], spaces, ' ');
  for (std::size_t i = token; i < at.size(); ++i) at[i] += spaces;
}

void align_marks(const std::vector<Line>& lines, std::vector<Text>& texts, const SourceMap& sources) {
  for (std::size_t from = 0; from < lines.size();) {
    const auto kind = kind_of(lines, from);
    std::size_t to = from + 1;
    for (; kind && to < lines.size(); ++to) {
      const auto next = kind_of(lines, to);
      if (!next || next->name != kind->name || lines[to].blank_before || lines[to].indent != lines[from].indent) break;
      if (!kind->as_written) continue;
      const auto mark = [&](std::size_t line) {
        return source_column(lines[line], *find_mark(lines[line], kind->marks[0]), sources);
      };
      if (mark(to) != mark(to - 1)) break;
    }
    for (std::size_t m = 0; kind && m < kind->marks.size(); ++m) align(lines, texts, from, to, kind->marks[m]);
    from = to;
  }
}

void append_comments(const std::vector<Line>& lines, std::vector<Text>& texts) {
  const auto behind_code = [&](std::size_t i) { return !lines[i].is_comment() && !lines[i].comment.empty(); };
  for (std::size_t from = 0; from < lines.size();) {
    if (!behind_code(from)) {
      ++from;
      continue;
    }
    std::size_t to = from, column = 0;
    for (; to < lines.size() && behind_code(to) && (to == from || !lines[to].blank_before); ++to)
      column = std::max({column, width(texts[to].text) + 1, std::size_t{lines[to].comment_column}});
    for (std::size_t i = from; i < to; ++i) {
      texts[i].text.append(column - width(texts[i].text), ' ');
      texts[i].text += lines[i].comment;
    }
    from = to;
  }
}

}  // namespace mesh::format
