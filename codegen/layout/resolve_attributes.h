// resolve_attributes.h: what stands in braces behind a layout's rule: how a dim is executed, not where it lies.
#pragma once
#include <set>

#include "codegen/layout/mesh.h"
#include "frontend/ast.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// `batch -> data { accumulate: 4 }`: layout.accumulate. `layer -> none { remat: "layer" }`: layout.remat. E0411 for an
/// attribute that does not exist, has a wrong value or stands with a dim that it says nothing of (`general`: the rule
/// stands in no scope, `in` or pin); E0412 where the batch cannot be cut so. `loops`: dims that a `repeat` runs over.
/// Those of pipelines are left to whoever builds pipelines.
void resolve_attributes(const ast::Place&, const Graph&, const std::set<DimId>& loops, bool general, Layout&,
                        DiagnosticSink&);
/// The first attribute of a rule that only a pipeline has, or null.
const ast::Attribute* pipeline_attribute(const ast::Place&);

}  // namespace mesh
