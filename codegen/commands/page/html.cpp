#include "codegen/commands/page/html.h"

#include <fmt/format.h>

namespace mesh::html {
namespace {

/// The bytes of the character that begins here; 0 where none does that a page may have.
size_t character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 || lead == '\t' || lead == '\n' ? (lead == 0x7f ? 0 : 1) : 0;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool too_long = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  const bool none = (lead == 0xed && byte(1) >= 0xa0) || (lead == 0xf4 && byte(1) >= 0x90) ||
                    (lead == 0xef && byte(1) == 0xbf && byte(2) >= 0xbe) || (lead == 0xc2 && byte(1) < 0xa0);
  return too_long || none ? 0 : length;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = character(text);
    switch (length == 1 ? text.front() : '\0') {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += length == 0 ? "\xef\xbf\xbd" : std::string(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string prose(std::string_view text) {
  std::string out;
  while (true) {
    const size_t open = text.find('`');
    const size_t close = open == std::string_view::npos ? open : text.find('`', open + 1);
    if (close == std::string_view::npos) return out + escaped(text);
    out += escaped(text.substr(0, open)) + code(text.substr(open + 1, close - open - 1));
    text.remove_prefix(close + 1);
  }
}

std::string element(std::string_view name, std::string_view attributes, std::string_view content) {
  return fmt::format("<{}{}{}>{}</{}>", name, attributes.empty() ? "" : " ", attributes, content, name);
}

std::string code(std::string_view text) { return element("code", "", escaped(text)); }

std::string table(std::string_view caption, const std::vector<Column>& columns, const std::vector<Row>& rows) {
  const auto numbers = [&](size_t i) { return i < columns.size() && columns[i].numbers ? " class=\"n\"" : ""; };
  std::string text = fmt::format(
      "<div class=\"wide\" role=\"region\" tabindex=\"0\" "
      "aria-label=\"{0}\"><table>\n<caption>{0}</caption>\n<thead><tr>",
      escaped(caption));
  for (size_t i = 0; i < columns.size(); ++i)
    text += fmt::format("<th scope=\"col\"{}>{}</th>", numbers(i), escaped(columns[i].heading));
  text += "</tr></thead>\n<tbody>\n";
  for (const Row& row : rows) {
    text += row.id.empty() ? "<tr>" : fmt::format("<tr id=\"{}\">", row.id);
    for (size_t i = 0; i < row.cells.size(); ++i)
      text += i == 0 ? fmt::format("<th scope=\"row\">{}</th>", row.cells[i])
                     : fmt::format("<td{}>{}</td>", numbers(i), row.cells[i]);
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

}  // namespace mesh::html
