// owned_parameters.h: parameters that only some coordinates of a pipeline's axis hold, as only their stages read them:
// those of the embedding in front of the loop, of the head behind it, a table that both read, what the turns of one of
// several loops share.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/layout/mesh.h"
#include "codegen/layout/placement.h"

namespace mesh {

/// By path, with the coordinates in order. Of the training step's graph, by micro-batches; nothing of one without a
/// pipeline.
std::map<std::string, std::vector<int64_t>> owned_parameters(const Graph&, const Layout&);

/// Where a stored tensor lies along the pipeline's axis, if not everywhere: where its parameter does, for what an
/// optimizer keeps. Numbers without dims are held everywhere.
std::vector<Where> owner_of(const Graph&, const Layout&, const Stored&);

}  // namespace mesh
