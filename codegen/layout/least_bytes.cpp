#include "codegen/layout/least_bytes.h"

#include <algorithm>
#include <map>

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

/// The smallest box around both.
Box around(const Box& a, const Box& b) {
  if (elements(a) == 0) return b;
  if (elements(b) == 0) return a;
  Box box;
  for (size_t i = 0; i < a.size(); ++i) box.push_back({std::min(a[i].begin, b[i].begin), std::max(a[i].end, b[i].end)});
  return box;
}

}  // namespace

int64_t least_bytes(const Graph& graph, const MeshShape& mesh, const ValueType& type, const Placement& from,
                    const Placement& to) {
  std::vector<AxisId> completed;
  for (const Partial& partial : from.partial)
    if (std::ranges::find(to.partial, partial) == to.partial.end()) completed.push_back(partial.axis);
  const int64_t members = mesh.size(completed);
  int64_t most = 0;
  std::map<int64_t, Box> summed;  // what the members of a group need of the sum that they hold, by its first rank
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const Box needed = block(graph, mesh, type, to, rank);
    const Box held = common(block(graph, mesh, type, from, rank), needed);
    // Of what is not complete nothing is held.
    most = std::max(most, elements(needed) - (members == 1 ? elements(held) : 0));
    int64_t first = rank;
    for (AxisId axis : completed) first -= mesh.coordinate(rank, axis) * mesh.axes[axis].stride;
    const auto [group, is_new] = summed.emplace(first, held);
    if (!is_new) group->second = around(group->second, held);
  }
  // Each element is summed somewhere, which takes one message from every other member.
  for (const auto& [group, box] : summed) most = std::max(most, (members - 1) * elements(box) / members);
  return most * static_cast<int64_t>(meshrt::size_of(type.element));
}

}  // namespace mesh
