// manual_spread.h: the end of a manual region. Its values had the shapes that one rank sees; now those that vary have
// what every rank has, side by side along a dim of ranks, and what was done with several ranks becomes an op along that
// dim. Nothing behind elaboration knows of regions.
#pragma once
#include "codegen/elaborate/context.h"
#include "codegen/elaborate/manual_varying.h"

namespace mesh::elaboration {

/// E0901 for an op that has no form with one more dim.
void spread(Elaboration&, const Region&, const Varying&);

/// What all ranks have alike from here on, with these dims whole. Defined in codegen/ops/agreed.cpp.
Op agreed(const std::vector<DimId>& gathered);

}  // namespace mesh::elaboration
