// emit_parts.h: the parts of an emitted file around its functions.
#pragma once
#include "codegen/emit/emit_context.h"
#include "codegen/emit/emit_program.h"

namespace mesh {

/// The comment at the top: spec, dims, mesh, layout, machine, communication and memory of a step.
void emit_header(EmitContext&, CppWriter&, const EmitOptions&);
/// Sizes of dims, mesh axes, local extents: all that is constexpr.
void emit_dims(EmitContext&, CppWriter&);
/// Members of the program's struct: where this rank stands in the mesh, and its groups.
void emit_place(EmitContext&, CppWriter&);
/// Members: a pointer to every buffer, by kind; those that outlive a step are listed for input, checkpoints and
/// messages.
void emit_memory(EmitContext&, CppWriter&);
/// Members: the plans of all collectives.
void emit_plans(EmitContext&, CppWriter&);
/// Constants: what each stage of every pipeline does, one action after the other.
void emit_rows(EmitContext&, CppWriter&);
/// Members: the pipelines, with what their stages hand on.
void emit_pipelines(EmitContext&, CppWriter&);
/// The function that gives meshrt::ProgramInfo.
void emit_info(EmitContext&, CppWriter&, const EmitOptions&);

/// "mesh::data.size * mesh::model.size"
std::string parts_text(EmitContext&, const DimPlacement&);
/// "(text)" where it has several words, so that it is one factor.
std::string in_parentheses(const std::string& text);
/// Which part of a dim with this placement the rank owns.
std::string part_index(EmitContext&, const DimPlacement&);
/// `meshrt::zigzag(4)`
std::string deal_expression(const Deal&);

/// "49.3 MiB", which stays in one line
std::string bytes_text(int64_t bytes);
/// A number as C++ of type double.
std::string number_text(double value);

}  // namespace mesh
