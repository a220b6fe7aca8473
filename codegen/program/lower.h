// lower.h: from a sharded graph to what one rank executes. Every node becomes steps (lower_*.cpp, one step or so a
// node), neighbouring loop nests are merged (fuse.h), buffers get addresses (memory.h).
#pragma once
#include "codegen/layout/sharded_graph.h"
#include "codegen/program/program.h"

namespace mesh {

struct LowerOptions {
  bool fuse = true;          // false: a nest for every node
  bool share_memory = true;  // false: a place of its own for every buffer
};

/// The program of a training step and, where `evaluate` (the forward graph of the same model: equal dims, stored
/// tensors by the same paths) is given, of evaluation. Both graphs hold no composite ops any more
/// (graph/decompose.cpp).
Program lower(const ShardedGraph& train, const ShardedGraph* evaluate, const LowerOptions& = {});

}  // namespace mesh
