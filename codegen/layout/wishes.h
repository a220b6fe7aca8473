// wishes.h: how values might lie so that less is moved, read off a graph that is placed: what looks ahead.
#pragma once
#include <map>
#include <vector>

#include "codegen/layout/sharded_graph.h"

namespace mesh {

/// Of a graph's decisions those that serve one end.
struct Wish {
  std::map<ValueId, Placement> lies;
  std::map<NodeId, int> moves_only;
  auto operator<=>(const Wish&) const = default;
};

/// For each costly movement, the dearest first, the ways to do without it: the value lies from the start as it was
/// moved to, and what it is computed from element by element lies so too; a partial sum is scattered where it was made
/// whole; what products sum up parts of is split as their results are to be; a loop's carry lies as it leaves a turn;
/// what is kept for backward lies as backward reads it; products of one value share its movement; those whose results
/// are added stay, so that their sum alone is completed. None makes the part that a rank holds of a value larger.
/// With `in_parts` also the ways to do without work that all ranks repeat, which counts as a movement's cost does: what
/// is whole only to be cut for its readers is computed in parts from the start, with all that it is made of; a sum that
/// products read whole is scattered. `graph` is what was placed.
std::vector<std::vector<Wish>> wishes(const Graph& graph, const ShardedGraph& placed, bool in_parts);

}  // namespace mesh
