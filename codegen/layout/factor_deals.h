// factor_deals.h: how one factor of an op may be dealt to the axes that split it, from how its operands lie and what
// rules say of its results.
#pragma once
#include <optional>
#include <vector>

#include "codegen/layout/strategy.h"

namespace mesh {

/// Dim `dim` of operand i as it lies now; null for none, or a free operand.
const DimPlacement* split_of(const OpContext&, size_t operand, DimId dim);
/// What claims axes for dim `dim` of result r; null where nothing does.
const DimPlacement* declared_split(const OpContext&, size_t result, DimId dim);

/// How a factor may be dealt to its axes: as operands and rules that split it over just these have it.
std::vector<Deal> deals(const OpContext&, const Factor&, const std::vector<AxisId>& axes);
/// How the steps of a merged dim's slowest part are dealt to the axes where operands or rules deal unlike parts. None
/// is empty but where a deal says so.
std::vector<Deal> deals_of_steps(const OpContext&, const Factor&, const std::vector<AxisId>& axes);

/// Whether the factor is the slowest part of the dim.
bool is_merged(const OpContext&, const Factor&, DimId dim);
/// How the elements of that dim are dealt where whole steps are dealt so to `parts`.
Deal deal_of_elements(const Factor&, const Deal& steps, int64_t parts);
/// Of a factor that is split while those before it in a merged dim are whole: in how many rounds that deals its
/// elements to the ranks. 0: in none.
int64_t in_rounds(const OpContext&, const Strategy&, size_t factor);

}  // namespace mesh
