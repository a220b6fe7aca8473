// wishes.h: how values might lie so that less is moved, read off a graph that is placed: what looks ahead.
#pragma once
#include <map>
#include <vector>

#include "codegen/layout/sharded_graph.h"

namespace mesh {

using Lies = std::map<ValueId, Placement>;  // as Decisions::lies

/// For each costly movement, the dearest first, the ways to do without it: the value lies from the start as it was
/// moved to, and what it is computed from element by element lies so too; a partial sum is scattered where it was made
/// whole; a loop's carry lies as it leaves a turn; what is kept for backward lies as backward reads it. None makes the
/// part that a rank holds larger. `graph` is what was placed.
std::vector<std::vector<Lies>> wishes(const Graph& graph, const ShardedGraph& placed);

}  // namespace mesh
