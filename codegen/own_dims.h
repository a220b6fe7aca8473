// own_dims.h: dims whose size `training` decides: another one in an evaluation than in the step of the same program.
#pragma once
#include "codegen/layout/sharded_graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// The entries of a program share their dims. One that another entry than the first has with another size is made a dim
/// of its own, behind all of the first's. E0223 where a stored tensor has it.
void give_own_dims(ShardedGraph& entry, Graph& first, DiagnosticSink&);

}  // namespace mesh
