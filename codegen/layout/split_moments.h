// split_moments.h: where ranks add up gradients and all of them make the same updates, each may keep and update a part
// of the optimizer's state alone, and hand out what it makes (ZeRO's first stage).
#pragma once
#include <vector>

#include "codegen/layout/sharded_graph.h"

namespace mesh {

/// Rules `optimizer { dim -> axes }` that split state over the ranks of one host which add up its parameter's gradient;
/// none where the layout speaks of the optimizer's state itself.
std::vector<Rule> rules_for_moments(const ShardedGraph& step);

/// Whether the step takes less time with them, as far as prediction can tell.
bool is_worth_splitting(const ShardedGraph& split, const ShardedGraph& whole);

}  // namespace mesh
