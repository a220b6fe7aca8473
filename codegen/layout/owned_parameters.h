// owned_parameters.h: parameters that one coordinate of a pipeline's axis holds alone, as only its stages read them:
// those of the embedding in front of the loop, of the head behind it.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "codegen/graph/graph.h"
#include "codegen/layout/mesh.h"

namespace mesh {

/// By path, with the coordinate. Of the training step's graph, by micro-batches; nothing of one without a pipeline.
std::map<std::string, int32_t> owned_parameters(const Graph&, const Layout&);

/// Where a stored tensor lies along the pipeline's axis, if one coordinate owns it: its parameter's, for what an
/// optimizer keeps. Numbers without dims are held everywhere.
std::vector<Where> owner_of(const Graph&, const Layout&, const Stored&);

}  // namespace mesh
