// group_turns.h: a loop as one over groups of turns, with one over the turns of a group in it: where turns are computed
// again some at a time, and where parts of a batch have parts.
#pragma once
#include "codegen/gradient/computed_again.h"

namespace mesh {

/// Makes each loop of which one turn in several keeps what came into it a loop over groups of so many turns, within
/// which a second one makes these. What is left to say is that each group's turns are computed again.
/// They are noted in Graph::grouped.
ComputedAgain group_turns(Graph&, const ComputedAgain&);

/// Makes every loop over `turns` one over `groups` with one over `within` in it. What a loop slices may be
/// [groups, within, ...] already. Sums of a group begin at zero, so that groups need nothing of each other.
void nest_turns(Graph&, DimId turns, DimId groups, DimId within);

}  // namespace mesh
