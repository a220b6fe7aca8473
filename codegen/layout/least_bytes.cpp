#include "codegen/layout/least_bytes.h"

#include <algorithm>

namespace mesh {
namespace {

/// A stretch of every dim of a value.
using Box = std::vector<Range>;

int64_t elements(const Box& box) {
  int64_t n = 1;
  for (const Range& range : box) n *= std::max<int64_t>(0, range.size());
  return n;
}

Box block(const Graph& graph, const MeshShape& mesh, const ValueType& type, const Placement& placement, int64_t rank) {
  Box box;
  for (size_t i = 0; i < type.dims.size(); ++i)
    box.push_back(owned_block(mesh, graph.dim(type.dims[i]).size, placement.dims[i], rank));
  return box;
}

Box common(const Box& a, const Box& b) {
  Box box;
  for (size_t i = 0; i < a.size(); ++i) box.push_back({std::max(a[i].begin, b[i].begin), std::min(a[i].end, b[i].end)});
  return box;
}

}  // namespace

int64_t least_bytes(const Graph& graph, const MeshShape& mesh, const ValueType& type, const Placement& from,
                    const Placement& to) {
  int64_t terms = 1, kept = 1;  // that are added of each element; sums of them that stay apart
  for (const Partial& partial : from.partial)
    (std::ranges::find(to.partial, partial) == to.partial.end() ? terms : kept) *= mesh.axes[partial.axis].size;
  int64_t most = 0, all_needed = 0;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const Box needed = block(graph, mesh, type, to, rank);
    const Box held = common(block(graph, mesh, type, from, rank), needed);
    // Of what is not complete nothing is held.
    most = std::max(most, elements(needed) - (terms == 1 ? elements(held) : 0));
    all_needed += elements(needed);
  }
  // Each element is summed somewhere, which takes a message from all other terms, and its sum goes to all that need it
  // but one: some rank sends as much as the average.
  if (terms > 1) {
    int64_t all = kept * (terms - 2);
    for (const DimId dim : type.dims) all *= graph.dim(dim).size;
    most = std::max(most, (all_needed + all) / mesh.ranks());
  }
  return most * static_cast<int64_t>(meshrt::size_of(type.element));
}

}  // namespace mesh
