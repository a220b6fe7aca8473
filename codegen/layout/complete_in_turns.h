// complete_in_turns.h: sums over hosts that a loop leaves in each of its turns, as the gradients of its layers are. All
// at once they are completed, or scattered, when the loop is over, and nothing is left to compute meanwhile; turn by
// turn the network has them while later turns are computed.
#pragma once
#include <map>

#include "codegen/layout/sharded_graph.h"

namespace mesh {

/// Where the stacks of such sums have to lie, by value of the graph that was placed (Decisions::lies), so that each
/// turn's is completed in its turn. Only where the machine is predicted to wait less, with the latency of a call a turn
/// counted; nothing between ranks of one host, whose processors move the data themselves.
std::map<ValueId, Placement> completed_in_turns(const ShardedGraph& placed);

}  // namespace mesh
