// resolve_remat.h: `remat` of a rule: what is computed again for the gradients in place of being kept.
#pragma once
#include <set>

#include "codegen/layout/mesh.h"
#include "frontend/ast.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// `layer -> none { remat: "layer" }`, `"every 2"` or `(layer.attn.score, layer.feed)`: layout.remat. E0411 for another
/// value, for a rule of dims that no `repeat` runs over, for names of what these do not compute, and for groups of
/// turns that are not equally large. Of whole stages see resolve_pipeline.h.
void resolve_remat(const ast::Place&, const ast::Attribute&, const Graph&, const std::set<DimId>& loops, Layout&,
                   DiagnosticSink&);

}  // namespace mesh
