#include "codegen/layout/placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/graph/hash.h"
#include "meshrt/collectives.h"

namespace mesh {

size_t hash_of(const Placement& placement) {
  size_t hash = placement.at.size();
  for (const DimPlacement& dim : placement.dims) {
    for (const AxisId axis : dim.axes) hash = hash_with(hash, axis);
    hash = hash_with(hash, 0xff + static_cast<size_t>(dim.deal.ownership));
  }
  for (const Partial& partial : placement.partial) hash = hash_with(hash, partial.axis);
  return hash;
}

bool Placement::uses(AxisId axis) const {
  for (const DimPlacement& dim : dims)
    if (std::find(dim.axes.begin(), dim.axes.end(), axis) != dim.axes.end()) return true;
  return where(axis) || std::any_of(partial.begin(), partial.end(), [&](const Partial& p) { return p.axis == axis; });
}

const Where* Placement::where(AxisId axis) const {
  const auto found = std::ranges::find(at, axis, &Where::axis);
  return found == at.end() ? nullptr : &*found;
}

bool Placement::has_margins() const {
  return std::any_of(dims.begin(), dims.end(), [](const DimPlacement& dim) { return bool(dim.margin); });
}

Placement Placement::without_margins() const {
  Placement result = *this;
  if (has_margins())
    for (DimPlacement& dim : result.dims) dim.margin = {};
  return result;
}

bool Placement::circulates() const { return std::ranges::any_of(dims, &DimPlacement::circulates); }

Placement Placement::without_circulation() const {
  Placement result = *this;
  if (circulates())
    for (DimPlacement& dim : result.dims) dim.meets = {};
  return result;
}

std::vector<Where> owners_of_turn(DimId dim, const DimPlacement& split) {
  std::vector<Where> at;
  for (const AxisId axis : split.axes) at.push_back({axis, {}, {dim, split.axes, split.deal}});
  std::ranges::sort(at);
  return at;
}

std::vector<Where> varying_turns(DimId dim, const DimPlacement& split) {
  std::vector<Where> at = owners_of_turn(dim, split);
  for (Where& where : at) where.varying = true;
  return at;
}

bool has_all_turns(const Graph& graph, const MeshShape& mesh, const Where& some, const TurnOwner& owner) {
  if (some.owner) return false;
  int64_t inner = 1;  // parts of one coordinate
  for (auto axis = owner.axes.rbegin(); *axis != some.axis; ++axis) inner *= mesh.axes[*axis].size;
  const int64_t turns = graph.dim(owner.dim).size, parts = mesh.size(owner.axes);
  for (int64_t part = 0; part < parts; ++part)
    if (meshrt::part_extent(turns, owner.deal, part, parts) > 0 &&
        std::ranges::count(some.coordinates, part / inner % mesh.axes[some.axis].size) == 0)
      return false;
  return true;
}

int64_t coordinate_at(const MeshShape& mesh, const Where& where, int64_t turns, int64_t turn) {
  const TurnOwner& owner = where.owner;
  if (!owner) return where.coordinates.front();
  const int64_t parts = mesh.size(owner.axes);
  int64_t part = meshrt::Owners(turns, 0, parts, owner.deal).owner(turn);
  for (auto axis = owner.axes.rbegin(); *axis != where.axis; ++axis) part /= mesh.axes[*axis].size;
  return part % mesh.axes[where.axis].size;
}

Deal deal_by_table(int64_t size, std::vector<std::vector<meshrt::IndexRange>> table) {
  const auto parts = static_cast<int64_t>(table.size()), rounds = static_cast<int64_t>(table.front().size());
  for (const Deal& named : {Deal{}, meshrt::rounds(parts, std::max<int64_t>(rounds, 1)), meshrt::zigzag(parts)}) {
    const auto is_same = [&](int64_t part) {
      return meshrt::ranges_at(size, named, meshrt::part_begin(size, named, part, parts),
                               meshrt::part_begin(size, named, part + 1, parts)) == table[static_cast<size_t>(part)];
    };
    int64_t part = 0;
    while (part < parts && is_same(part)) ++part;
    if (part == parts) return named;
  }
  return {meshrt::Ownership::table, parts, 1, std::move(table)};
}

std::vector<int> indices_at(const MeshShape& mesh, const std::vector<AxisId>& axes, const Where& where) {
  int64_t inner = 1;  // ranks of one coordinate
  for (auto axis = axes.rbegin(); *axis != where.axis; ++axis) inner *= mesh.axes[*axis].size;
  std::vector<int> indices;
  for (int64_t index = 0; index < mesh.size(axes); ++index)
    if (std::ranges::count(where.coordinates, index / inner % mesh.axes[where.axis].size) > 0)
      indices.push_back(static_cast<int>(index));
  return indices;
}

void hold_everywhere(Placement& placement) {
  std::erase_if(placement.at, [](const Where& where) { return !where.varying; });
}

void remove_axes(DimPlacement& dim, const std::vector<AxisId>& axes) {
  std::erase_if(dim.axes, [&](AxisId axis) { return contains(axes, axis); });
  if (dim.axes.empty()) dim.deal = {};
}

Placement without_axes(Placement placement, const std::vector<AxisId>& axes) {
  const auto leaves = [&](AxisId axis) { return contains(axes, axis); };
  for (DimPlacement& dim : placement.dims) remove_axes(dim, {std::ranges::find_if(dim.axes, leaves), dim.axes.end()});
  std::erase_if(placement.partial, [&](const Partial& partial) { return leaves(partial.axis); });
  std::erase_if(placement.at, [&](const Where& where) { return leaves(where.axis); });
  return placement;
}

Placement reordered(const Placement& placement, const std::vector<DimId>& from, const std::vector<DimId>& to) {
  Placement result = placement;
  for (size_t i = 0; i < to.size(); ++i)
    result.dims[i] = placement.dims[std::find(from.begin(), from.end(), to[i]) - from.begin()];
  return result;
}

int64_t index_over(const MeshShape& mesh, const std::vector<AxisId>& axes, int64_t rank) {
  int64_t index = 0;
  for (AxisId axis : axes) index = index * mesh.axes[axis].size + mesh.coordinate(rank, axis);
  return index;
}

Range positions_of_part(const MeshShape& mesh, int64_t size, const DimPlacement& dim, int64_t index) {
  const int64_t parts = mesh.size(dim.axes);
  return {meshrt::part_begin(size, dim.deal, index, parts), meshrt::part_begin(size, dim.deal, index + 1, parts)};
}

Range owned_positions(const MeshShape& mesh, int64_t size, const DimPlacement& dim, int64_t rank) {
  return positions_of_part(mesh, size, dim, index_over(mesh, dim.axes, rank));
}

std::vector<Range> owned(const MeshShape& mesh, int64_t size, const DimPlacement& dim, int64_t rank) {
  return elements_of_part(mesh, size, dim, index_over(mesh, dim.axes, rank));
}

std::vector<Range> elements_of_part(const MeshShape& mesh, int64_t size, const DimPlacement& dim, int64_t index) {
  const Range positions = positions_of_part(mesh, size, dim, index);
  return meshrt::ranges_at(size, dim.deal, positions.begin, positions.end);
}

int64_t shared_elements(const std::vector<Range>& a, const std::vector<Range>& b) {
  int64_t shared = 0;
  for (const Range& one : a)
    for (const Range& other : b)
      shared += std::max<int64_t>(0, std::min(one.end, other.end) - std::max(one.begin, other.begin));
  return shared;
}

int64_t largest_extent(const MeshShape& mesh, int64_t size, const DimPlacement& dim) {
  const int64_t parts = mesh.size(dim.axes);
  int64_t largest = (size + parts - 1) / parts;
  if (dim.deal) largest = 0;
  for (int64_t part = 0; dim.deal && part < parts; ++part)
    largest = std::max(largest, positions_of_part(mesh, size, dim, part).size());
  return largest + dim.margin.before + dim.margin.after;
}

bool is_even(const MeshShape& mesh, int64_t size, const DimPlacement& dim) {
  const int64_t parts = mesh.size(dim.axes);
  if (!dim.deal || size % parts != 0) return size % parts == 0;
  return largest_extent(mesh, size, dim) == size / parts + dim.margin.before + dim.margin.after;
}

int64_t local_elements(const Graph& graph, const MeshShape& mesh, const ValueType& type, const Placement& placement) {
  int64_t n = 1;
  for (size_t i = 0; i < type.dims.size(); ++i)
    n *= largest_extent(mesh, graph.dim(type.dims[i]).size, placement.dims[i]);
  return n;
}

int64_t local_bytes(const Graph& graph, const MeshShape& mesh, const ValueType& type, const Placement& placement) {
  return local_elements(graph, mesh, type, placement) * static_cast<int64_t>(meshrt::size_of(type.element));
}

std::string deal_text(const Deal& deal) {
  switch (deal.ownership) {
    case meshrt::Ownership::block: return "";
    case meshrt::Ownership::rounds: return fmt::format(" rounds({})", deal.rounds);
    case meshrt::Ownership::zigzag: return " zigzag";
    case meshrt::Ownership::table: return " table";
    case meshrt::Ownership::stretch:
      return fmt::format(" as {}..{} of {}", deal.begin, deal.every == 1 ? "" : fmt::format(" by {}", deal.every),
                         deal.whole);
  }
  return "";
}

std::string owns_text(const Deal& deal) {
  switch (deal.ownership) {
    case meshrt::Ownership::block: return "";
    case meshrt::Ownership::rounds: return fmt::format(R"( {{ owns: "rounds", rounds: {} }})", deal.rounds);
    case meshrt::Ownership::zigzag: return R"( { owns: "zigzag" })";
    case meshrt::Ownership::stretch: return "";  // no rule says so
    case meshrt::Ownership::table: break;
  }
  return fmt::format(R"( {{ owns: "{}" }})", meshrt::to_text(deal).substr(sizeof "table:" - 1));
}

std::string axes_text(const MeshShape& mesh, const std::vector<AxisId>& axes, const char* between) {
  std::string text;
  for (AxisId axis : axes) text += (text.empty() ? "" : between) + mesh.axes[axis].name;
  return text;
}

std::string to_string(const Graph& graph, const MeshShape& mesh, const Where& where) {
  const std::string& axis = mesh.axes[where.axis].name;
  if (!where.owner) return fmt::format("{} {}", axis, fmt::join(where.coordinates, " or "));
  const std::string over = where.owner.axes.size() > 1 ? " over " + axes_text(mesh, where.owner.axes) : "";
  return fmt::format("{}{} of {}{}{}", axis, where.varying ? ", by turns" : " of its turn",
                     graph.dim(where.owner.dim).name, over, deal_text(where.owner.deal));
}

std::string to_string(const Graph& graph, const MeshShape& mesh, const ValueType& type, const Placement& placement) {
  std::string text = "[";
  for (size_t i = 0; i < type.dims.size(); ++i) {
    text += (i ? ", " : "") + graph.dim(type.dims[i]).name;
    if (!placement.dims[i].axes.empty()) text += "/" + axes_text(mesh, placement.dims[i].axes);
    text += deal_text(placement.dims[i].deal);
    if (const Margin& margin = placement.dims[i].margin) text += fmt::format(" -{}+{}", margin.before, margin.after);
    if (placement.dims[i].circulates()) text += " in a ring";
  }
  text += "]";
  for (const Partial& partial : placement.partial)
    text += std::string(" partial ") + meshrt::name_of(partial.reduce) + " over " + mesh.axes[partial.axis].name;
  const char* between = " at ";
  for (const Where& where : placement.at) {
    text += (where.varying ? " varying over " : between) + to_string(graph, mesh, where);
    if (!where.varying) between = ", ";
  }
  return text;
}

}  // namespace mesh
