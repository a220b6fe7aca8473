// write.h: what a step leaves in a parameter, which may be kept in fewer bits than it is computed in.
#pragma once
#include "codegen/graph/builder.h"

namespace mesh {

/// Appends the update of the stored tensor, and returns what it will be. Of a tensor in bf16 or f16 each element is
/// rounded up or down by chance, so that it is the number that was computed on average: rounded to the nearest, a step
/// below half of its last place would never be taken. (Gupta et al., arXiv 1502.02551.) The random numbers are those of
/// the tensor's path, the step and the element's place in the whole tensor: the same under every layout, and resumed.
ValueId write(GraphBuilder&, StoredId, ValueId);

}  // namespace mesh
