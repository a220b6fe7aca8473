// emit_steps.h: steps in order: for each the lines of the spec that it comes from, its local shapes, and the C++.
#pragma once
#include <string>
#include <vector>

#include "codegen/emit/emit_context.h"

namespace mesh {

/// One step without bodies. `line_before` is the source comment of the step before, which is not repeated.
void emit_step(EmitContext&, CppWriter&, Scope&, const Step&, std::string& line_before);
/// The lines that a step comes from, where they are others than `line_before`: as comments, and what its time counts
/// for as `at_line("gpt.mesh:24  score = ...")`; `// gpt.mesh:46  repeat layer {`.
void emit_origin(EmitContext&, CppWriter&, const Step&, std::string& line_before);

/// "x [batch/data 2, seq 256]": what a rank holds of it, for comments.
std::string local_shape(const EmitContext&, const Access&);

}  // namespace mesh
