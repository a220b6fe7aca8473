#include "codegen/layout/factor_deals.h"

#include <algorithm>

namespace mesh {
namespace {

/// Parts of several dims go round together: a deal must leave none empty, and a table is of dims of one size.
bool goes_round_so(const OpContext& op, const Factor& factor, const std::vector<AxisId>& axes, const Deal& deal) {
  const auto of_size = [&](DimId dim) { return op.graph.dim(dim).size == factor.size; };
  if (deal.ownership == meshrt::Ownership::table && !std::ranges::all_of(factor.operands, of_size)) return false;
  const int64_t parts = op.mesh.size(axes);
  for (int64_t part = 0; part < parts; ++part)
    if (meshrt::part_extent(factor.size, deal, part, parts) == 0) return false;
  return true;
}

using Table = std::vector<std::vector<meshrt::IndexRange>>;

Table table_of(int64_t size, const Deal& deal, int64_t parts) {
  Table table;
  for (int64_t part = 0; part < parts; ++part)
    table.push_back(meshrt::ranges_at(size, deal, meshrt::part_begin(size, deal, part, parts),
                                      meshrt::part_begin(size, deal, part + 1, parts)));
  return table;
}

/// How a merged dim that is dealt to `parts` deals the steps of its slowest part; nothing where it cuts one.
std::optional<Deal> deal_of_steps(const Factor& factor, const Deal& deal, int64_t parts) {
  Table table = table_of(factor.size * factor.granule, deal, parts);
  for (auto& ranges : table)
    for (meshrt::IndexRange& range : ranges) {
      if (range.begin % factor.granule != 0 || range.end % factor.granule != 0) return {};
      range = {range.begin / factor.granule, range.end / factor.granule};
    }
  return deal_by_table(factor.size, std::move(table));
}

}  // namespace

const DimPlacement* split_of(const OpContext& op, size_t operand, DimId dim) {
  if (!dim || !op.operands[operand]) return nullptr;
  const std::vector<DimId>& dims = op.graph.type(op.node.inputs[operand]).dims;
  const size_t at = std::find(dims.begin(), dims.end(), dim) - dims.begin();
  return &op.operands[operand]->dims[at];
}

const DimPlacement* declared_split(const OpContext& op, size_t result, DimId dim) {
  if (!dim) return nullptr;
  const std::vector<DimId>& dims = op.graph.type(op.node.results[result]).dims;
  const auto& declared = op.declared[result][std::find(dims.begin(), dims.end(), dim) - dims.begin()];
  return declared ? &*declared : nullptr;
}

bool is_merged(const OpContext& op, const Factor& factor, DimId dim) {
  return factor.granule > 1 && factor.slower < 0 && op.graph.dim(dim).size == factor.size * factor.granule;
}

std::vector<Deal> deals_of_steps(const OpContext& op, const Factor& factor, const std::vector<AxisId>& axes) {
  std::vector<Deal> all;
  if (axes.empty() || factor.granule <= 1 || factor.slower >= 0) return all;
  const int64_t parts = op.mesh.size(axes);
  const auto consider = [&](DimId dim, const DimPlacement* split) {
    if (!split || split->axes != axes || (split->deal ? split->deal.parts != parts : factor.size < parts)) return;
    const bool merged = is_merged(op, factor, dim);
    if (merged ? !split->deal : op.graph.dim(dim).size != factor.size) return;
    const std::optional<Deal> steps = merged ? deal_of_steps(factor, split->deal, parts) : split->deal;
    if (steps && std::ranges::find(all, *steps) == all.end()) all.push_back(*steps);
  };
  for (size_t i = 0; i < op.operands.size(); ++i) consider(factor.operands[i], split_of(op, i, factor.operands[i]));
  for (size_t r = 0; r < op.declared.size(); ++r) consider(factor.results[r], declared_split(op, r, factor.results[r]));
  return all;
}

std::vector<Deal> deals(const OpContext& op, const Factor& factor, const std::vector<AxisId>& axes) {
  if (std::vector<Deal> steps = deals_of_steps(op, factor, axes); !steps.empty()) return steps;
  if (axes.empty() || factor.in_order || factor.granule > 1 || factor.slower >= 0 || factor.margin) return {Deal{}};
  std::vector<Deal> all;
  const auto consider = [&](const DimPlacement* split) {
    if (split && split->axes == axes && std::ranges::find(all, split->deal) == all.end()) all.push_back(split->deal);
  };
  for (size_t i = 0; i < op.operands.size(); ++i) consider(split_of(op, i, factor.operands[i]));
  for (size_t r = 0; r < op.declared.size(); ++r) consider(declared_split(op, r, factor.results[r]));
  if (factor.circulates) std::erase_if(all, [&](const Deal& deal) { return !goes_round_so(op, factor, axes, deal); });
  return all.empty() ? std::vector<Deal>{Deal{}} : all;
}

Deal deal_of_elements(const Factor& factor, const Deal& deal, int64_t parts) {
  Table table = table_of(factor.size, deal, parts);
  for (auto& ranges : table)
    for (meshrt::IndexRange& range : ranges) range = {range.begin * factor.granule, range.end * factor.granule};
  return deal_by_table(factor.size * factor.granule, std::move(table));
}

int64_t in_rounds(const OpContext& op, const Strategy& strategy, size_t f) {
  if (op.factors[f].slower < 0 || strategy.factor_axes[f].empty()) return 0;
  int64_t rounds = 1;
  for (int slower = op.factors[f].slower; slower >= 0; slower = op.factors[static_cast<size_t>(slower)].slower) {
    if (!strategy.factor_axes[static_cast<size_t>(slower)].empty()) return 0;
    rounds *= op.factors[static_cast<size_t>(slower)].size;
  }
  return rounds;
}

}  // namespace mesh
