// route.h: which token goes to which expert, as an op (route.cpp).
#pragma once
#include "codegen/graph/graph.h"

namespace mesh {

/// (chosen: index(expert)[.., token, choice][, weight: the same dims]) -> the seat that each choice gets, which counts
/// the slots of all experts: index(seat)[.., token, choice]; and the token in each seat, index(token)[.., seat]; -1 for
/// none. The dims that are not named are groups, each of which has all the seats.
struct Route {
  DimId token, choice;  // choice unset: each token makes one, and no value has the dim
  DimId expert, slot, seat;
  bool once = false;  // a token takes only the first of its choices that has room

  Op op() const;
};

}  // namespace mesh
