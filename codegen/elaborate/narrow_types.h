// narrow_types.h: values of bf16 and f16 in ops that compute in f32 alone. `sum(x)` of such an x is
// `bf16(sum(f32(x)))`: added up in f32, in the order in which f32 is, and rounded once. So all that follows, gradients
// and layouts too, knows of casts only.
#pragma once
#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// Puts these casts around such ops (Narrow::widened). Named values that the caller wants, and outputs, come in f32.
void widen_narrow_types(Elaboration&);

}  // namespace mesh::elaboration
