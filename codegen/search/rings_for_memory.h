// rings_for_memory.h: what a layout may say so that ranks hold less, where its rules leave it open: keys and values of
// attention that are gathered may go round instead.
#pragma once
#include <string>
#include <vector>

#include "codegen/layout/sharded_graph.h"

namespace mesh {

/// `key -> ctx unless seq` for each dim that a rank has whole though an op's work is split along another that it could
/// go round with. None for dims of which rules say anything. `because`: why memory asks for them.
std::vector<Rule> rings_for_memory(const ShardedGraph& step, const std::string& because);

}  // namespace mesh
