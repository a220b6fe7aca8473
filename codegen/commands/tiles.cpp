#include "codegen/commands/tiles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "codegen/commands/table.h"

namespace mesh {
namespace {

constexpr int64_t most_tiles = 8, most_named = 6;  // that are drawn in a row, that are named in a tile

/// A dim that is cut: its parts in order; or one that is not there, of a single part.
struct Side {
  std::string dim;
  std::vector<AxisId> axes;
  std::vector<std::string> parts;  // "0..64"
};

Side side_of(const Graph& graph, const MeshShape& mesh, DimId dim, const DimPlacement& split) {
  Side side{graph.dim(dim).name, split.axes, {}};
  for (int64_t part = 0; part < mesh.size(split.axes); ++part) {
    int64_t rank = 0;
    while (index_over(mesh, split.axes, rank) != part) ++rank;
    std::vector<std::string> ranges;
    for (const Range& range : owned(mesh, graph.dim(dim).size, split, rank))
      ranges.push_back(fmt::format("{}..{}", range.begin, range.end));
    side.parts.push_back(ranges.empty() ? "nothing" : fmt::format("{}", fmt::join(ranges, ", ")));
  }
  return side;
}

/// "0, 2"; "0, 4, 8, ... (16 ranks)"
std::string ranks_text(const MeshShape& mesh, const Side& down, const Side& across, int64_t row, int64_t column) {
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
    if (index_over(mesh, down.axes, rank) == row && index_over(mesh, across.axes, rank) == column)
      ranks.push_back(rank);
  if (static_cast<int64_t>(ranks.size()) <= most_named) return fmt::format("{}", fmt::join(ranks, ", "));
  const size_t all = ranks.size();
  ranks.resize(3);
  return fmt::format("{}, ... ({} ranks)", fmt::join(ranks, ", "), all);
}

/// All of so many, or the first few and the last, with a gap (-1).
std::vector<int64_t> drawn(size_t parts) {
  std::vector<int64_t> which;
  const auto all = static_cast<int64_t>(parts);
  for (int64_t part = 0; part < all; ++part)
    if (all <= most_tiles || part < most_tiles - 2 || part == all - 1) which.push_back(part);
    else if (which.back() != -1) which.push_back(-1);
  return which;
}

constexpr const char* gap = "...";

std::vector<std::string> names_of(const Side& side, const std::vector<int64_t>& parts) {
  std::vector<std::string> names;
  names.reserve(parts.size());
  for (const int64_t part : parts) names.push_back(part < 0 ? gap : side.parts[static_cast<size_t>(part)]);
  return names;
}

}  // namespace

std::optional<Tiles> tiles_of(const Graph& graph, const MeshShape& mesh, const ValueType& type,
                              const Placement& placement) {
  std::vector<Side> sides;
  for (size_t i = 0; i < type.dims.size() && sides.size() < 2; ++i)
    if (!placement.dims[i].axes.empty()) sides.push_back(side_of(graph, mesh, type.dims[i], placement.dims[i]));
  if (sides.empty()) return std::nullopt;
  const Side down = sides.front();
  const Side across = sides.size() > 1 ? sides.back() : Side{"", {}, {""}};
  const std::vector<int64_t> rows = drawn(down.parts.size()), columns = drawn(across.parts.size());
  Tiles tiles{down.dim, across.dim, names_of(down, rows), names_of(across, columns), {}};
  for (const int64_t row : rows) {
    tiles.ranks.emplace_back();
    for (const int64_t column : columns)
      tiles.ranks.back().push_back(row < 0 || column < 0 ? gap : ranks_text(mesh, down, across, row, column));
  }
  return tiles;
}

std::string picture_of_tiles(const Graph& graph, const MeshShape& mesh, const ValueType& type,
                             const Placement& placement) {
  const std::optional<Tiles> tiles = tiles_of(graph, mesh, type, placement);
  if (!tiles) return "";
  const bool one = tiles->across.empty();
  std::vector<std::vector<std::string>> cells{{"  " + tiles->down + (one ? "" : " \\ " + tiles->across)}};
  for (const std::string& column : tiles->columns) cells.front().push_back(one ? "| ranks" : "| " + column);
  for (size_t row = 0; row < tiles->rows.size(); ++row) {
    cells.push_back({"  " + tiles->rows[row]});
    for (const std::string& ranks : tiles->ranks[row]) cells.back().push_back("| " + ranks);
  }
  return in_columns(cells);
}

}  // namespace mesh
