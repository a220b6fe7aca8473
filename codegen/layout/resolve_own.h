// resolve_own.h: `own: (embedding, head)` of a pipeline's rule: what has a stage to itself.
#pragma once
#include "codegen/layout/mesh.h"
#include "frontend/ast.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// Of names of values, blocks or parameters: whether something is meant that stands in front of the pipeline's loops,
/// so that the first stage has no turns (first_alone), or behind them (last_alone). E0411 for a name that nothing has,
/// or what stands elsewhere. Whether all was well.
bool resolve_own(const ast::Attribute&, const Graph&, Pipeline&, DiagnosticSink&);

}  // namespace mesh
