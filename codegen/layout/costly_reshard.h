// costly_reshard.h: movements that send more than twice what any way of moving would have to: what a user's rules ask
// for without meaning it. They are told, with the rule that avoids them.
#pragma once
#include "codegen/layout/sharded_graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// The lint costly_reshard, for each movement above twice that bound (least_bytes.h) and above 64 KiB.
void report_costly_reshards(const ShardedGraph&, DiagnosticSink&);

}  // namespace mesh
