// read_narrow.h: products that read each weight once, as those of few rows do, read one of 16 bits as it lies: the
// kernel widens it in registers, where the same numbers add up in the same order, and no copy in f32 is written and
// read.
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

/// Of a graph whose narrow parameters are widened for those who compute with them (narrow_parameters.h).
void read_narrow(Graph&);

}  // namespace mesh
