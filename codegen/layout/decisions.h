// decisions.h: what is decided of a graph's placements beyond its rules, before its values are placed one by one.
#pragma once
#include <map>

#include "codegen/layout/placement.h"

namespace mesh {

struct Decisions {
  /// Where values lie in the dims that no rule binds; of a loop's carry: `entering`.
  std::map<ValueId, Placement> lies;
  /// Rules are only preferences for what has no name within an expression.
  bool frees_inner = false;
  /// A copy that is there already costs an op that needs it nothing.
  bool counts_copies = true;
  /// An op that would have operands moved may split any of its dims instead.
  bool splits_any = false;
  bool operator==(const Decisions&) const = default;
};

}  // namespace mesh
