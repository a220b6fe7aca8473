// computed_again.h: what gradients compute again instead of reading what the forward pass kept: `remat` of a layout.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "codegen/graph/graph.h"

namespace mesh {

struct ComputedAgain {
  std::map<DimId, int64_t> loops;  // by a loop's dim: one turn in so many keeps what came into it, none anything else
  std::set<std::string> values;    // paths of values that no turn keeps, or of blocks in which none is kept
  bool operator==(const ComputedAgain&) const = default;
};

/// Whether a name is the path, or lies under it: `layer.attn.score` under `layer.attn`.
bool lies_under(std::string_view name, std::string_view path);

/// The nodes that make the values, with what their expressions are made of and has no name itself.
std::set<NodeId> makers_of(const Graph&, const std::set<std::string>& paths);

}  // namespace mesh
