// narrow_types.h: where values of bf16 and f16 may stand. They are cast, computed with element by element, multiplied
// and handed on; what adds up or looks along a dim does so in f32.
#pragma once
#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// E0901 for other uses of them. Named values that the caller wants, and outputs, come in f32.
void check_narrow_types(Elaboration&);

}  // namespace mesh::elaboration
