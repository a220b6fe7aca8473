// source.cpp: the text of the files that the page links to, with the collectives that each line needs.
#include <fmt/format.h>

#include "codegen/commands/page/facts.h"
#include "codegen/commands/page/html.h"
#include "meshrt/log.h"

namespace mesh::page {

using html::element;
using html::escaped;

namespace {

/// By line, links to the collectives that it needs and that send something.
std::map<std::pair<FileId, uint32_t>, std::string> notes_of(const Facts& facts) {
  std::map<std::pair<FileId, uint32_t>, std::string> notes;
  for (size_t i = 0; i < facts.step.collectives.size(); ++i) {
    const PlannedCollective& one = facts.step.collectives[i];
    if (!one.span.known() || volume(one) == 0) continue;
    std::string& note = notes[{one.span.file, line_of(facts.sources, one.span)}];
    note += fmt::format("{}<a href=\"#{}\">{} {} {}</a>", note.empty() ? "" : "<br/>", Facts::id_of_collective(i),
                        name_of(one.kind), escaped(one.tensor), meshrt::bytes_text(volume(one)));
  }
  return notes;
}

/// Code, then what stands behind `//`.
std::string line_text(std::string_view text) {
  const size_t comment = text.find("//");
  if (comment == std::string_view::npos) return escaped(text);
  return escaped(text.substr(0, comment)) + element("span", "class=\"comment\"", escaped(text.substr(comment)));
}

}  // namespace

std::string source(Facts& facts) {
  for (FileId file = 1; file <= facts.sources.size(); ++file)
    if (facts.graph.objective && facts.graph.objective->span.file == file) facts.lines.show(file);
  const auto notes = notes_of(facts);
  std::string text;
  for (const FileId file : facts.lines.files()) {
    const std::string name = escaped(facts.sources.file_name({file, 0, 0}));
    text += fmt::format(
        "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{0}\"><table class=\"source\">\n<caption>{0}"
        "</caption>\n<thead><tr><th scope=\"col\">Line</th><th scope=\"col\">Text</th><th scope=\"col\">Sends in a "
        "step</th></tr></thead>\n<tbody>\n",
        name);
    for (uint32_t line = 1; line <= facts.sources.line_count(file); ++line) {
      const auto note = notes.find({file, line});
      text += fmt::format("<tr id=\"{}\"><th scope=\"row\">{}</th><td><code>{}</code></td><td>{}</td></tr>\n",
                          Lines::id(file, line), line, line_text(facts.sources.line_text(file, line)),
                          note == notes.end() ? "" : note->second);
    }
    text += "</tbody></table></div>\n";
  }
  return section("source", "The spec", text);
}

}  // namespace mesh::page
