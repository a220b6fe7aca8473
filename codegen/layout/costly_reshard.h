// costly_reshard.h: movements that send more than twice what any way of moving would have to: what a user's rules ask
// for without meaning it. They are told, with the rule that avoids them.
#pragma once
#include "codegen/layout/sharded_graph.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// A lower bound for the rank that has to send or receive most: the bytes that it needs and does not hold, or those
/// that it must give away of a partial value. Margins do not count.
int64_t least_bytes(const Graph&, const MeshShape&, const ValueType&, const Placement& from, const Placement& to);

/// The lint costly_reshard, for each movement above twice that bound and above 64 KiB.
void report_costly_reshards(const ShardedGraph&, DiagnosticSink&);

}  // namespace mesh
