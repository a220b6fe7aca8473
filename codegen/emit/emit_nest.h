// emit_nest.h: a loop nest as plain C++ loops: maps and stores as `for`, reductions as meshrt::sum_of and its kin,
// accumulates as `+=`.
#pragma once
#include "codegen/emit/emit_context.h"

namespace mesh {

void emit_nest(EmitContext&, CppWriter&, Scope&, const Nest&);

}  // namespace mesh
