// draws.h: by what random numbers are counted.
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

/// Of what reads a set batch by batch: draws along the samples have them first, and go by their places in the set.
void draw_by_set(Graph&);

/// What a node draws; null for another.
RandomOp* draw_of(Node&);

}  // namespace mesh
