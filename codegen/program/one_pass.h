// one_pass.h: where the optimizer's state is split over ranks that share memory, gradients are summed, parameters
// updated and handed to all in one pass over memory.
#pragma once
#include "codegen/program/program.h"

namespace mesh {

/// A reduce-scatter, the updates of its results, and the all-gather of what these make become a OnePassStep, where
/// nothing else needs what lies between them; so do updates and an all-gather alone, where the sums are needed before.
/// Ranks of several hosts keep the calls: those are under way while others compute.
void update_in_one_pass(Program&);

}  // namespace mesh
