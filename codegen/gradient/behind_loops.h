// behind_loops.h: what turns of a loop make of a sum over samples, and nobody needs in the loop, is made behind it: a
// running statistic of what a layer has seen.
#pragma once
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

/// Of what loops stack, all that is made of sums over dims of these names element by element, and is read by no carry
/// and with no sample, is made of the stacked sums, of all turns at once. So where a loop runs for a part of the
/// samples at a time, its sums are complete by then.
void complete_behind_loops(Graph&, const std::vector<DimId>& names);

}  // namespace mesh
