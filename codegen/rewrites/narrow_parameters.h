// narrow_parameters.h: parameters kept in a type of fewer bits. Turns of a loop, views and rows of a parameter have its
// type; who computes with numbers reads them in f32, so that each is widened as late as it can be: what a layout
// gathers is the narrow value. Products may read it as it is (narrow.h).
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

void narrow_parameters(Graph&, meshrt::Type);

}  // namespace mesh
