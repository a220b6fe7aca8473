// resolve_attributes.h: what stands in braces behind a layout's rule: how a dim is executed, and how its elements
// are dealt to the ranks that split it.
#pragma once
#include <set>
#include <string_view>
#include <vector>

#include "codegen/layout/placement.h"
#include "frontend/ast.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// `batch -> data { accumulate: 4 }`: layout.accumulate. `layer -> none { remat: "layer" }`: layout.remat. E0411 for an
/// attribute that does not exist, has a wrong value or stands with a dim that it says nothing of (`general`: the rule
/// stands in no scope, `in` or pin). `loops`: dims that a `repeat` runs over.
/// Those of pipelines are read by resolve_pipeline.h, those of replicas by resolve_replicas.h.
void resolve_attributes(const ast::Place&, const Graph&, const std::set<DimId>& loops, bool general, Layout&,
                        DiagnosticSink&);
/// E0412 where `accumulate` does not divide the samples of a step, or of one replica.
void check_micro_batches(const Graph&, const Layout&, DiagnosticSink&);
/// How the rule deals a dim to the ranks of `axes`: `seq -> ctx { owns: "zigzag" }`; blocks where it does not say.
/// E0411 for a value that says nothing, or not of this dim and so many ranks.
Deal deal_of(const ast::Place&, const Graph&, const MeshShape&, const std::vector<AxisId>& axes, DimId,
             DiagnosticSink&);
/// The dim that a rule places; unset for a merged one and where no dim of the model is called so.
DimId dim_of(const Graph&, const ast::Product&);
/// The attribute of that name behind a rule; null without one.
const ast::Attribute* attribute_of(const ast::Place&, std::string_view key);
/// Those of a pipeline (resolve_pipeline.h), the first of which each must have.
extern const std::vector<const char*> pipeline_attributes;
/// Whether the rule has some of them.
bool makes_pipeline(const ast::Place&);
/// Whether it has those of replicas (resolve_replicas.h).
bool makes_replicas(const ast::Place&);

}  // namespace mesh
