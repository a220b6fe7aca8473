#include "codegen/layout/least_bytes.h"

#include <algorithm>

namespace mesh {
namespace {

/// What a rank owns of every dim of a value.
using Box = std::vector<std::vector<Range>>;

Box box(const Graph& graph, const MeshShape& mesh, const ValueType& type, const Placement& placement, int64_t rank) {
  Box all;
  for (size_t i = 0; i < type.dims.size(); ++i)
    all.push_back(owned(mesh, graph.dim(type.dims[i]).size, placement.dims[i], rank));
  return all;
}

int64_t common_elements(const Box& a, const Box& b) {
  int64_t n = 1;
  for (size_t i = 0; i < a.size(); ++i) n *= shared_elements(a[i], b[i]);
  return n;
}

/// Whether a rank is where the value lies. Of one that changes its place with the turns of a loop, as `moves` says.
bool is_at(const MeshShape& mesh, const Placement& placement, int64_t rank, bool moves) {
  return std::ranges::all_of(placement.at, [&](const Where& where) {
    return where.owner ? moves : std::ranges::count(where.coordinates, mesh.coordinate(rank, where.axis)) > 0;
  });
}

}  // namespace

int64_t least_bytes(const Graph& graph, const MeshShape& mesh, const ValueType& type, const Placement& from,
                    const Placement& to) {
  int64_t terms = 1, kept = 1;  // that are added of each element; sums of them that stay apart
  for (const Partial& partial : from.partial) {
    const Where* some = from.where(partial.axis);
    (std::ranges::find(to.partial, partial) == to.partial.end() ? terms : kept) *=
        some ? static_cast<int64_t>(some->coordinates.size()) : mesh.axes[partial.axis].size;
  }
  int64_t most = 0, all_needed = 0, holders = 0, outside = 0;  // outside: needed by a rank that has no term
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const bool holds = is_at(mesh, from, rank, false);
    holders += holds ? 1 : 0;
    if (!is_at(mesh, to, rank, true)) continue;
    const Box needed = box(graph, mesh, type, to, rank);
    const int64_t elements = common_elements(needed, needed);
    // Of what is not complete nothing is held.
    const int64_t held = terms == 1 && holds ? common_elements(box(graph, mesh, type, from, rank), needed) : 0;
    most = std::max(most, elements - held);
    all_needed += elements;
    if (!holds) outside = std::max(outside, elements);
  }
  // Each element is summed somewhere, which takes a message from all other terms, and its sum goes to all that need it
  // but one: some rank sends as much as the average.
  if (terms > 1) {
    int64_t whole = 1;
    for (const DimId dim : type.dims) whole *= graph.dim(dim).size;
    most = std::max(most, (all_needed + kept * (terms - 2) * whole) / mesh.ranks());
    // All of these messages but one come from ranks that have a term, and so does what leaves them.
    if (holders > 0) most = std::max(most, (whole * (terms - 1) + outside) / holders);
  }
  return most * static_cast<int64_t>(meshrt::size_of(type.element));
}

}  // namespace mesh
