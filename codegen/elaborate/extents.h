// extents.h: sizes that the rest of the compiler may rely on: elements, their bytes and positions are counted in
// integers that do not overflow. Whether a rank can hold its parts is asked when they are known (program/fits_rank.h).
#pragma once
#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// E0221 for the first value with too many elements, those of all turns of the loops around it together, and for the
/// first dim whose positions do not fit their i32.
void check_extents(Elaboration&);

/// a * b, or the largest number there is.
int64_t product_or_largest(int64_t a, int64_t b);

}  // namespace mesh::elaboration
