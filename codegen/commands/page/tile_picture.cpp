#include "codegen/commands/page/tile_picture.h"

#include <fmt/format.h>

#include <optional>

#include "codegen/commands/page/html.h"
#include "codegen/commands/tiles.h"

namespace mesh::page {

namespace {

constexpr double width = 66, height = 34;
constexpr size_t colours = 8;

/// The parts as fields of a rectangle: ranks that hold a part are named where there is room.
std::string fields(const std::optional<Tiles>& tiles, bool partial) {
  const size_t rows = tiles ? tiles->rows.size() : 1, columns = tiles ? tiles->columns.size() : 1;
  const double wide = width / static_cast<double>(columns), high = height / static_cast<double>(rows);
  std::string drawn;
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c) {
      const std::string ranks = tiles ? tiles->ranks[r][c] : "all";
      const bool gap = ranks == "...";
      const double x = wide * static_cast<double>(c), y = high * static_cast<double>(r);
      drawn += fmt::format("<rect class=\"{}{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"/>",
                           gap ? "gap" : fmt::format("tile{}", tiles ? (r * columns + c) % colours : 0),
                           partial ? " partial" : "", x, y, wide, high);
      const double size = std::min(11.0, high - 1);
      if (size >= 7 && 0.6 * size * static_cast<double>(ranks.size()) <= wide - 2)
        drawn += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" font-size=\"{:.1f}\">{}</text>", x + wide / 2,
                             y + high / 2 + 0.35 * size, size, html::escaped(ranks));
    }
  return drawn;
}

}  // namespace

std::string TilePictures::picture(const Graph& graph, const MeshShape& mesh, const ValueType& type,
                                  const Placement& lies) {
  const std::optional<Tiles> tiles = tiles_of(graph, mesh, type, lies);
  const std::string drawn = fields(tiles, lies.is_partial());
  const auto [at, is_new] = number_.try_emplace(drawn, number_.size() + 1);
  if (is_new)
    drawn_ += fmt::format("<symbol id=\"tiles{}\" viewBox=\"-1 -1 {} {}\">{}</symbol>\n", at->second, width + 2,
                          height + 2, drawn);
  const std::string said = !tiles                  ? "one part, which all ranks hold"
                           : tiles->across.empty() ? "parts by " + tiles->down
                                                   : "parts by " + tiles->down + " and " + tiles->across;
  return fmt::format(
      "<svg class=\"tiles\" role=\"img\" aria-label=\"{}\" width=\"{}\" height=\"{}\"><use href=\"#tiles{}\"/></svg>",
      html::escaped(said), width + 2, height + 2, at->second);
}

std::string TilePictures::definitions() const {
  return "<svg class=\"symbols\" aria-hidden=\"true\" width=\"0\" height=\"0\">\n" + drawn_ + "</svg>\n";
}

std::string table_of_tiles(const Graph& graph, const MeshShape& mesh, const ValueType& type, const Placement& lies) {
  const std::optional<Tiles> tiles = tiles_of(graph, mesh, type, lies);
  if (!tiles) return "";
  const bool one = tiles->across.empty();
  std::vector<html::Column> columns{{one ? tiles->down : tiles->down + " \\ " + tiles->across}};
  for (const std::string& column : tiles->columns) columns.push_back({one ? "ranks" : column});
  std::vector<html::Row> rows;
  for (size_t r = 0; r < tiles->rows.size(); ++r) {
    rows.push_back({{html::escaped(tiles->rows[r])}});
    for (const std::string& ranks : tiles->ranks[r]) rows.back().cells.push_back(html::escaped(ranks));
  }
  return html::table("Which ranks hold what", columns, rows);
}

}  // namespace mesh::page
