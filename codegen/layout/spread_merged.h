// spread_merged.h: a merged dim's rule (`kv * group -> model`) -> one rule for each of its dims.
#pragma once
#include "codegen/layout/mesh.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// Where the ranks divide the first dim, it has all axes. Where the first dim divides the ranks, each of its elements
/// has as many ranks of the same number, which the next dim is split over; an axis that lies in both is cut into two
/// (`model` into `model_kv` and `model_group`), in the mesh and in every rule. E0901 where neither divides the other.
void spread_merged(const Graph&, Layout&, DiagnosticSink&);

}  // namespace mesh
