#include "frontend/format/format.h"

#include "frontend/format/columns.h"
#include "frontend/format/lines.h"
#include "frontend/format/spacing.h"
#include "frontend/parse.h"

namespace mesh {

using namespace format;

std::optional<std::string> format_text(FileId file, const SourceMap& sources, DiagnosticSink& sink) {
  const std::size_t errors = sink.error_count();
  parse(file, sources, sink);
  if (sink.error_count() > errors) return std::nullopt;

  const std::vector<Line> lines = lines_of(file, sources);
  std::vector<Text> texts;
  for (const Line& line : lines) {
    Text& text = texts.emplace_back();
    text.text.assign(2 * static_cast<std::size_t>(line.indent) + (line.continued ? 4 : 0), ' ');
    for (std::size_t i = 0; i < line.tokens.size(); ++i) {
      if (i > 0) text.text.append(static_cast<std::size_t>(spaces_between(line.tokens[i - 1], line.tokens[i])), ' ');
      text.at.push_back(text.text.size());
      text.text += line.tokens[i].token.text;
    }
    if (line.is_comment()) text.text += line.comment;
  }
  align_marks(lines, texts, sources);
  append_comments(lines, texts);

  std::string result;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    // No blank line behind an opening brace or before a closing one.
    const bool opened = i > 0 && !lines[i - 1].is_comment() && lines[i - 1].tokens.back().token.is("{");
    const bool closes = !lines[i].is_comment() && lines[i].tokens.front().token.is("}");
    if (lines[i].blank_before && !opened && !closes) result += '\n';
    result += texts[i].text + '\n';
  }
  return result;
}

}  // namespace mesh
