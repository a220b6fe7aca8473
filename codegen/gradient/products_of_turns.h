// products_of_turns.h: a weight that each turn of a loop reads, as those of a recurrent layer are, has a gradient that
// turns add up. Where each of them multiplies few rows, to add to so large a sum takes longer than to multiply: one
// product of the rows of all turns, behind the loop, takes a fraction of it.
#pragma once
#include <set>

#include "codegen/graph/graph.h"

namespace mesh {

/// Moves products that turns of a backward loop add up behind it, one for each time that a turn reads the weight, where
/// what they multiply is kept of all turns: as many elements as the loop reads of others, at most. Loops over
/// `as_they_are` stay so: those of a pipeline, and those whose turns are computed again to save memory.
void multiply_behind_loops(Graph&, const std::set<DimId>& as_they_are);

}  // namespace mesh
