// combine.h: sums of weighted rows of a table, as an op (combine.cpp).
#pragma once
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

/// (table[.., row, ..], ids: index(row)[tokens.., choices..], weight: the dims of ids) -> ids' dims but the choices,
/// then the table's others: the sum over the choices of weight * table[ids]; the row at -1 is zero. A dim that both
/// have pairs up.
struct Combine {
  DimId row;
  std::vector<DimId> choices;

  Op op() const;
};

}  // namespace mesh
