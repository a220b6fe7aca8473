// reads.h: how often what a loop computes is read before the loop ends.
#pragma once
#include "codegen/graph/rewrite.h"

namespace mesh {

/// Of a value of the loop's body: in a turn, by loops within it with all that is inside them too, and to hand it on or
/// stack it.
inline int64_t reads_in(const Graph& graph, const LoopOp& loop, ValueId value) {
  int64_t reads = 0;
  const auto count = [&](ValueId read) { reads += read == value ? 1 : 0; };
  for (const NodeId id : graph.body(loop.body).nodes) for_each_source(graph, graph.node(id), count);
  for (const LoopOp::Carry& carry : loop.carries) count(carry.leaving);
  for (const LoopOp::Collect& collect : loop.collects) count(collect.turn);
  return reads;
}

}  // namespace mesh
