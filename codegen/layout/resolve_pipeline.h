// resolve_pipeline.h: a rule that makes a loop a pipeline.
#pragma once
#include <set>
#include <vector>

#include "codegen/layout/mesh.h"
#include "frontend/ast.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// `layer -> pipe { microbatches: 8, schedule: "1f1b" }`: layout.pipeline. `axes` are those of the rule with more than
/// one rank; with none of them there is no pipeline, but its micro-batches. E0411 for what is no pipeline, E0412 where
/// the batch cannot be cut so, E0420 where there are more stages than turns, E0421 for a cut that is none of the turns
/// into the stages, and what resolve_schedule.h says of the schedule. Under layout.other_schedule a cut by hand into
/// another number of stages is left out.
void resolve_pipeline(const ast::Place&, Span rule, const Graph&, const std::set<DimId>& loops,
                      const std::vector<AxisId>& axes, SourceMap&, Layout&, DiagnosticSink&);

}  // namespace mesh
