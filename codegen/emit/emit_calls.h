// emit_calls.h: steps that are one call of the runtime: products, attention, lookups, copies, collectives.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "codegen/emit/emit_context.h"

namespace mesh {

void emit_product(EmitContext&, CppWriter&, Scope&, const ProductStep&);
void emit_take(EmitContext&, CppWriter&, const TakeStep&);
void emit_scatter(EmitContext&, CppWriter&, const ScatterStep&);
void emit_copy(EmitContext&, CppWriter&, Scope&, const CopyStep&);
void emit_fill(EmitContext&, CppWriter&, const FillStep&);
/// `span` is the place in the spec that the call names when it fails.
void emit_attention(EmitContext&, CppWriter&, Scope&, const AttentionStep&, Span span);
/// A collective, or several in one call.
void emit_collective(EmitContext&, CppWriter&, const Step&);
void emit_one_pass(EmitContext&, CppWriter&, const OnePassStep&);
/// By what an action does, and ActionStep::keeps.
using ActionCalls = std::map<std::pair<ActionKind, bool>, std::string>;
/// The call that runs this rank's actions of a pipeline, each by its own call of a function; and the pipeline's name.
void emit_pipeline_run(EmitContext&, CppWriter&, const ForStep&, const std::string& routine, const ActionCalls& calls);

// Shared by the calls.

/// The table of the boundaries between the parts that the members of a group own of a dim, of which `whole` is what
/// they own together.
std::string part_table(EmitContext&, const LocalDim& whole, const std::vector<AxisId>& axes);
/// Why a collective is made, or several in one call, as comments.
void emit_reasons(EmitContext&, CppWriter&, const Step&);
/// What its plan is called: "all_gather_wq", "all_gather_wq[l]".
std::string plan_of(EmitContext&, const Step&);
/// "all_reduce over `ctx` (4 ranks), 12 KiB: why", before a call that moves something; `of` stands before the bytes.
void emit_reason(EmitContext&, CppWriter&, const ReshardStep& why, const std::string& of = "");

/// Elements between neighbours along the last of `dims` that the access has: "1", "heads * head_dim"; "0" where it has
/// none of them.
std::string stride_along(EmitContext&, const Access&, const std::vector<DimId>& dims);
/// How many elements of these dims the rank holds: "heads * head_dim".
std::string extent_along(EmitContext&, const Access&, const std::vector<DimId>& dims);
bool has_dim(const EmitContext&, const Access&, DimId);

}  // namespace mesh
