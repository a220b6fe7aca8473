// write_out_windows.h: convolutions along a sequence as sums over neighbours, which are read position by position.
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

/// Of a model that generates: what moves windows along its sequence, and is no more than a sum over neighbours, is
/// written so. What sees later positions then says how many.
void write_out_windows(Graph&);

}  // namespace mesh
