// horizons.h: of which positions of a sequence every value of a graph is made (graph/horizon.h): op by op, and through
// loops until nothing changes any more.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/graph/horizon.h"

namespace mesh {

struct Horizons {
  std::vector<Horizon> of;  // by value
  /// The ops of which a result is not causal though the operands are, with this result: in a loop, in the first turn
  /// in which that is so.
  std::map<NodeId, Horizon> culprits;
};

/// An input that is a number: an index along a dim.
struct KnownIndex {
  StoredId input;
  DimId along;
};

/// `input` is a sequence along `dim`; nothing else brings positions in.
Horizons horizons_of(const Graph&, StoredId input, DimId dim, std::optional<KnownIndex> index = {});

}  // namespace mesh
