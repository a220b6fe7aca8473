// free_turns.h: loops whose turns may be made in any order, and by different ranks.
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

/// Whether no turn needs anything of another: what the loop carries either stays as it was, or is a sum to which each
/// turn adds and which none reads.
bool turns_are_free(const Graph&, const LoopOp&);

}  // namespace mesh
