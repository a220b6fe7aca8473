// turn_terms.h: the number of a turn that is counted by several loops: turn `w` of group `g` of two is 2 * g + w.
#pragma once
#include <cstdint>
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

struct TurnTerm {
  ValueId turn;
  int64_t times = 1;
};

/// The values that a whole number is a sum of, and how often each counts; the value itself where it is no such sum.
std::vector<TurnTerm> turn_terms(const Graph&, ValueId);

}  // namespace mesh
