// html.h: text and elements of a page, written so that it is HTML and well-formed XML at once.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mesh::html {

/// For content and attributes: what has a meaning in HTML is escaped, characters that no page may have are replaced.
std::string escaped(std::string_view);

/// The same, with what stands between backticks as code.
std::string prose(std::string_view);

/// <name attributes>content</name>; the content is HTML.
std::string element(std::string_view name, std::string_view attributes, std::string_view content);

std::string code(std::string_view text);

/// A column of a table: its heading, and whether it has numbers.
struct Column {
  std::string heading;
  bool numbers = false;
};

/// A row that says with its first cell what the others are about.
struct Row {
  std::vector<std::string> cells;  // HTML
  std::string id = "";             // what links point to
};

/// A table that scrolls sideways by itself where it is too wide.
std::string table(std::string_view caption, const std::vector<Column>&, const std::vector<Row>&);

}  // namespace mesh::html
