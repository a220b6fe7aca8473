// resolve_replicas.h: a rule that makes the coordinates of an axis replicas, which train apart.
#pragma once
#include <vector>

#include "codegen/layout/mesh.h"
#include "frontend/ast.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// `batch -> data { sync: 500, outer: sgd(lr: 0.7, momentum: 0.9, nesterov: true) }`: layout.replicas. `axes` are those
/// of the rule with more than one rank; with none of them there are no replicas. E0411 for what makes none or has a
/// wrong value, E0412 where the batch cannot be divided so. Lint: changes_numbers.
void resolve_replicas(const ast::Place&, Span rule, const Graph&, const std::vector<AxisId>& axes, Layout&,
                      DiagnosticSink&);

/// E0426 for what the layout or the model has beside replicas that none of them could have alone, E0901 for what is not
/// built within them.
void check_replicas(const Graph&, const Layout&, DiagnosticSink&);

}  // namespace mesh
