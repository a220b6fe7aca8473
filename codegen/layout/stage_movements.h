// stage_movements.h: that nothing goes among the stages of a placed pipeline but messages. Each stage is at a
// micro-batch of its own: ranks that made a collective there would wait for each other for ever.
#pragma once
#include "codegen/layout/sharded_graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// E0419 for the first movement over the pipeline's axis within a micro-batch.
void check_stage_movements(const ShardedGraph&, DiagnosticSink&);

}  // namespace mesh
