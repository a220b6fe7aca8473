// divisible_loops.h: one form for loops whose turns ranks may have among them: what a spec may write in several ways.
#pragma once
#include <functional>
#include <string>

#include "codegen/graph/graph.h"

namespace mesh {

/// Of the loops over dims whose turns are divided, as `divides(scope, dim)` says, each sum is what entered the turn
/// plus all else; and where such a loop carries nothing but sums, or its turns are stages of a pipeline, as
/// `stages(dim)` says, what its turns look up by their number they take as their slice, so that a rank needs the slices
/// of its own turns alone.
void prepare_divisible_loops(Graph&, const std::function<bool(const std::string& scope, DimId)>& divides,
                             const std::function<bool(DimId)>& stages);

}  // namespace mesh
