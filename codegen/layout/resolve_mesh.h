// resolve_mesh.h: a mesh as the spec writes it -> its axes with sizes and strides.
#pragma once
#include <optional>

#include "codegen/elaborate/declarations.h"
#include "codegen/layout/resolve.h"
#include "frontend/size.h"

namespace mesh {

/// Dims and consts, whose sizes elaboration has found to be good: what a size of a layout may name.
SizeScope sizes_of(const Graph&, const Declarations&, const LayoutOptions&, DiagnosticSink&);

/// E0409 where `-n` and the mesh disagree, E0410 for an axis of `--mesh` that the mesh lacks.
std::optional<MeshShape> resolve_mesh(const ast::Mesh&, const Declarations&, const Graph&, const LayoutOptions&,
                                      DiagnosticSink&);

/// The same of a mesh that no layout uses, whose axis `*` needs no number of ranks.
void check_mesh(const ast::Mesh&, const Declarations&, const Graph&, const LayoutOptions&, DiagnosticSink&);

}  // namespace mesh
