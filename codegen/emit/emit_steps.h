// emit_steps.h: steps in order: for each the lines of the spec that it comes from, its local shapes, and the C++.
#pragma once
#include <string>
#include <vector>

#include "codegen/emit/emit_context.h"

namespace mesh {

/// The lines of the spec that a step comes from, and the one of them that its time counts for.
struct Origin {
  std::string lines, counted;
};

/// One step without bodies, under the lines of `origin`: its own, or of a wait those of the step that needs it. What of
/// `before`, the origin of the step before, is the same is not repeated.
void emit_step(EmitContext&, CppWriter&, Scope&, const Step&, const Step& origin, Origin& before);
/// The lines that a step comes from, where they are others than those before: as comments, and what its time counts
/// for as `at_line("gpt.mesh:24  score = ...")`; `// gpt.mesh:46  repeat layer {`.
void emit_origin(EmitContext&, CppWriter&, const Step&, Origin& before);

/// "x [batch/data 2, seq 256]": what a rank holds of it, for comments.
std::string local_shape(const EmitContext&, const Access&);

}  // namespace mesh
