// changes.h: what one pair of brackets changes of a value's dims, all at once.
#pragma once
#include <optional>
#include <vector>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// `heads as kv * group`, resolved: one dim on the left of a split or rename, on the right of a merge or rename. Of a
/// slice, `token = 1.. as patch`, one on both sides; of a selection, `token = 0`, none on the right; of a neighbour,
/// `x + 1`, the same on both.
struct Change {
  struct Part {
    int64_t begin, step;
  };
  std::vector<DimId> from, to;
  std::optional<Part> part;
  Span span;
  int64_t distance = 0;
  ValueId index = {};  // of a selection: where it is computed
};

/// The value with the changes made. Poison after E0304, E0312, E0330.
Term with_changes(Elaboration&, const Term&, std::vector<Change>, Span value_span);

}  // namespace mesh::elaboration
