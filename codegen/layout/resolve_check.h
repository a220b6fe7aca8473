// resolve_check.h: what must hold of a layout's rules on the values that the spec writes.
#pragma once
#include "codegen/layout/mesh.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// Over every input, parameter (with its gradient and optimizer state) and named value: E0401 for one axis on two dims,
/// E0406 for two rules of equal rank on one dim, E0424 for rules that take from the stages of a pipeline what is
/// theirs. Lints: idle_mesh_axis, idle_ranks, unused_layout_rule.
void check_rules(const Graph&, const Layout&, DiagnosticSink&);

}  // namespace mesh
