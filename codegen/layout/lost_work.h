// lost_work.h: what a placed step does that nobody needs: lints.
#pragma once
#include "codegen/layout/sharded_graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// Lints `repeated_work`: ranks compute the same for a large part of the step, though a rule gives their mesh axis to a
/// dim; and `completed_twice`: parts of one partial sum are completed apart, which sends more than to complete it once.
void report_lost_work(const ShardedGraph&, DiagnosticSink&);

}  // namespace mesh
