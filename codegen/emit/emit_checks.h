// emit_checks.h: programs for `--find-nonfinite`, which look at every number that a step begins with or makes.
#pragma once
#include "codegen/emit/emit_context.h"

namespace mesh {

/// `meshrt::check_finite(rank, {3, "x"}, x, batch * io);` for the inputs, parameters and state that a step begins with.
void check_stored(EmitContext&, CppWriter&);
/// `meshrt::check_finite(rank, {3, "h"}, h, batch * seq * embed, {{"layer", l}});` for what this step has made.
void check_made(EmitContext&, CppWriter&, Scope&, const Step&);

}  // namespace mesh
