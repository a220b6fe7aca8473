// lookup_dims.h: how the dims of a lookup (TakeStep, ScatterStep) correspond: those of the table, of the indices, and
// of the rows that are read or written.
#pragma once
#include <vector>

#include "codegen/graph/dims.h"
#include "codegen/program/program.h"

namespace mesh {

/// The rows have shared, counted, before, then inner dims; the indices shared ones, then counted ones; the table has
/// those before the looked up one and shared ones in any order, it itself perhaps behind some of these, then inner
/// ones.
struct LookupDims {
  std::vector<LocalDim> shared;   // of table and indices: a lookup for each of their elements
  std::vector<LocalDim> counted;  // of the indices alone
  std::vector<LocalDim> before;   // of the table alone, before the looked up dim: loops around the lookup
  std::vector<LocalDim> inner;    // of the table alone, behind it: a row
};

LookupDims lookup_dims(const Program&, const Access& table, const Access& ids, DimId dim);

/// The orders in which indices and table must lie, nearest to how they lie: as they do, where they may.
Dims lookup_order_of_ids(const Program&, const Access& table, const Access& ids, DimId dim);
Dims lookup_order_of_table(const Program&, const Access& table, const Access& ids, DimId dim);
/// The order of the rows, of indices and a table that lie so.
Dims lookup_order_of_rows(const Program&, const Access& table, const Access& ids, DimId dim);

}  // namespace mesh
