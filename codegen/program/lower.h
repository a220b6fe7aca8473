// lower.h: from the sharded graphs of a model's entries to what one rank executes. Every node becomes steps
// (lower_*.cpp, one step or so a node), neighbouring loop nests are merged (fuse.h), buffers get addresses (memory.h).
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "codegen/program/entry.h"
#include "codegen/program/program.h"

namespace mesh {

struct LowerOptions {
  bool fuse = true;                    // false: a nest for every node
  bool share_memory = true;            // false: a place of its own for every buffer
  std::optional<int64_t> memory = {};  // that a rank may take, bytes; none: no more than that is known
};

/// The program of these entries. Their graphs have equal dims, and stored tensors by the same paths; the first one's
/// has them all.
Program lower(std::span<const Entry> entries, const LowerOptions& = {});

}  // namespace mesh
