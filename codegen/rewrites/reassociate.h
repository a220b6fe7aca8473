// reassociate.h: sums whose terms are of several kinds: the terms of one kind are added to each other first.
#pragma once
#include <functional>

#include "codegen/graph/graph.h"

namespace mesh {

/// What a term of a sum is: terms of one positive kind are added before others; `plain` terms come last. A sum that
/// adds to a `fixed` value stays one addition to that.
constexpr int plain_term = 0, fixed_term = -1;

/// Whether a sum changed: `(h + a) + b` becomes `h + (a + b)` where a and b are of one kind. Only sums within an
/// expression are taken apart: those that have no name and one reader.
bool reassociate(Graph&, const std::function<int(ValueId)>& kind);

}  // namespace mesh
