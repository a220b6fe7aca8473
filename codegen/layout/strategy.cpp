#include "codegen/layout/strategy.h"

#include <algorithm>

#include "codegen/layout/factor_deals.h"

namespace mesh {
namespace {

/// Whether the dim of an operand or a result is not that along which the factor's work is split, but what that meets.
bool goes_round(const Factor& factor, DimId dim) { return factor.circulates && dim != factor.operands[0]; }

/// How a dim is dealt of which each rank has what stands in its block of the factor.
Deal deal_of_stretch(const Graph& graph, const Factor& factor, DimId dim, const Stretch& at) {
  if (graph.dim(dim).size == factor.size) return {};
  return meshrt::stretch(factor.size, at.begin, at.every);
}

}  // namespace

/// Of a dim that is merged of several its elements', of a stretch of the factor what stands in its parts, else the
/// factor's. `at`: of all operands, or results, of which the dim is one's.
Deal Strategy::deal_along(const OpContext& op, size_t f, DimId dim, const std::vector<Stretch>& at,
                          size_t which) const {
  const Factor& factor = op.factors[f];
  if (!at.empty()) return factor_axes[f].empty() ? Deal{} : deal_of_stretch(op.graph, factor, dim, at[which]);
  const int64_t parts = op.mesh.size(factor_axes[f]);
  if (const int64_t rounds = in_rounds(op, *this, f); rounds > 1 && op.graph.dim(dim).size != factor.size)
    return meshrt::rounds(parts, rounds);
  if (!is_merged(op, factor, dim) || (!factor_deals[f] && factor.size % parts == 0)) return factor_deals[f];
  return deal_of_elements(factor, factor_deals[f], parts);
}

/// Which parts a rank meets of what goes round, beside its own: those of which some rank needs an element for its own
/// part of the dim along which the work is split. Over other axes that one may be cut into more parts.
std::vector<int64_t> Strategy::meetings(const OpContext& op, size_t f) const {
  const int64_t parts = op.mesh.size(factor_axes[f]);
  std::vector<int64_t> meets;
  for (int64_t turn = 1; turn < parts; ++turn) meets.push_back(turn);
  const std::optional<Band>& band = op.factors[f].band;
  DimPlacement first;
  for (size_t other = 0; other < op.factors.size(); ++other)
    if (op.factors[other].operands[0] == op.factors[f].operands[0])
      first.axes.insert(first.axes.end(), factor_axes[other].begin(), factor_axes[other].end());
  const int64_t first_parts = op.mesh.size(first.axes);
  first.deal = factor_deals[f];
  if (!band || !band->most) return meets;
  const DimPlacement second{factor_axes[f], factor_deals[f]};
  const auto ranges = [&](DimId dim, const DimPlacement& split, int64_t count) {
    std::vector<std::vector<Range>> all;
    for (int64_t part = 0; part < count; ++part)
      all.push_back(elements_of_part(op.mesh, op.graph.dim(dim).size, split, part));
    return all;
  };
  const auto own = ranges(band->first, first, first_parts), met = ranges(band->second, second, parts);
  const auto needed = [&](int64_t turn) {
    for (int64_t part = 0; part < first_parts; ++part)
      for (const Range& mine : own[static_cast<size_t>(part)])
        for (const Range& theirs : met[static_cast<size_t>((part + parts - turn) % parts)])
          if (band->meets(mine, theirs)) return true;
    return false;
  };
  std::erase_if(meets, [&](int64_t turn) { return !needed(turn); });
  return meets.empty() ? std::vector<int64_t>{1} : meets;
}

Placement Strategy::required(const OpContext& op, size_t operand) const {
  const std::vector<DimId>& dims = op.graph.type(op.node.inputs[operand]).dims;
  Placement placement = Placement::whole(dims.size());
  for (size_t f = 0; f < op.factors.size(); ++f) {
    const DimId dim = op.factors[f].operands[operand];
    if (!dim) continue;
    DimPlacement& part = placement.dims[static_cast<size_t>(std::find(dims.begin(), dims.end(), dim) - dims.begin())];
    part.axes.insert(part.axes.end(), factor_axes[f].begin(), factor_axes[f].end());
    if (const Deal deal = deal_along(op, f, dim, op.factors[f].operands_at, operand)) part.deal = deal;
    if (!factor_axes[f].empty() && goes_round(op.factors[f], dim)) part.meets = meetings(op, f);
    // Beside a part that is dealt out of order lie others' elements: no reader asks for them.
    if (part.deal.in_order())
      part.margin = op.margins.of(op.node, op.factors, f, operand, op.mesh.size(factor_axes[f]));
  }
  if (op.operands[operand])
    for (const Partial& partial : op.operands[operand]->partial)
      if (partial.reduce == Reduce::sum && contains(passing, partial.axis) && !contains(joining, partial.axis))
        placement.partial.push_back(partial);
  for (const AxisId axis : joining) placement.partial.push_back({axis, Reduce::sum});
  std::ranges::sort(placement.partial);
  placement.at = staying;
  return placement;
}

Placement Strategy::natural(const OpContext& op, size_t result) const {
  const std::vector<DimId>& dims = op.graph.type(op.node.results[result]).dims;
  Placement placement = Placement::whole(dims.size());
  for (size_t f = 0; f < op.factors.size(); ++f) {
    const DimId dim = op.factors[f].results[result];
    if (dim) {
      DimPlacement& part = placement.dims[std::find(dims.begin(), dims.end(), dim) - dims.begin()];
      part.axes.insert(part.axes.end(), factor_axes[f].begin(), factor_axes[f].end());
      if (const Deal deal = deal_along(op, f, dim, op.factors[f].results_at, result)) part.deal = deal;
      if (!factor_axes[f].empty() && goes_round(op.factors[f], dim)) part.meets = meetings(op, f);
    } else {
      for (AxisId axis : factor_axes[f]) placement.partial.push_back({axis, op.factors[f].reduce});
    }
  }
  for (AxisId axis : passing) placement.partial.push_back({axis, Reduce::sum});
  std::sort(placement.partial.begin(), placement.partial.end());
  placement.at = staying;
  return placement;
}

Placement target(const DeclaredAxes& declared, const Placement& natural) {
  Placement placement = natural;
  std::vector<AxisId> used;
  for (const auto& split : declared)
    if (split) used.insert(used.end(), split->axes.begin(), split->axes.end());
  for (size_t i = 0; i < declared.size(); ++i) {
    const std::vector<AxisId>& axes = natural.dims[i].axes;
    if (declared[i]) {
      if (natural.dims[i] != *declared[i]) placement.dims[i] = *declared[i];
    } else {  // an open dim keeps what the ruled ones do not claim
      const auto claimed = std::ranges::find_if(axes, [&](AxisId axis) { return contains(used, axis); });
      const bool as_dealt = axes.empty() && natural.dims[i].deal;
      if (claimed != axes.end() || as_dealt) remove_axes(placement.dims[i], {claimed, axes.end()});
    }
  }
  std::erase_if(placement.partial, [&](const Partial& p) { return contains(used, p.axis); });
  std::erase_if(placement.at, [&](const Where& where) { return contains(used, where.axis); });
  return placement;
}

Placement operand_placement(const Graph& graph, const Node& node, size_t operand, const Placement& result) {
  const std::vector<DimId>&dims = graph.type(node.inputs[operand]).dims,
        &result_dims = graph.type(node.results[0]).dims;
  Placement placement = Placement::whole(dims.size());
  for (const Factor& factor : definition(node.op).factors(graph, node)) {
    if (!factor.operands[operand] || !factor.results[0] || factor.circulates) continue;
    const size_t from = std::find(result_dims.begin(), result_dims.end(), factor.results[0]) - result_dims.begin();
    const DimPlacement& lies = result.dims[from];
    const bool merged = std::ranges::any_of(lies.axes, [&](AxisId axis) { return placement.uses(axis); });
    if (merged) continue;  // and a slower dim has the axes
    DimPlacement& part =
        placement
            .dims[static_cast<size_t>(std::find(dims.begin(), dims.end(), factor.operands[operand]) - dims.begin())];
    part = lies;
    if (factor.margin) part.margin = factor.margin;
  }
  return placement;
}

namespace {

/// Of dims that are split or merged the slowest takes the merged one's axes, where all ranks get whole steps of it.
std::optional<Placement> before_regrouping(const Graph& graph, const MeshShape& mesh, const Node& view, DimId merged,
                                           const std::vector<DimId>& parts, bool splits, const Placement& result) {
  const std::vector<DimId>&dims = graph.type(view.inputs[0]).dims, &result_dims = graph.type(view.results[0]).dims;
  const auto of_result = [&](DimId dim) -> const DimPlacement& {
    return result.dims[static_cast<size_t>(std::ranges::find(result_dims, dim) - result_dims.begin())];
  };
  const DimPlacement& slowest = of_result(splits ? parts[0] : merged);
  const bool plain = !slowest.deal && !slowest.margin && graph.dim(parts[0]).size % mesh.size(slowest.axes) == 0;
  const auto is_whole = [&](DimId part) { return part == parts[0] || of_result(part) == DimPlacement{}; };
  if (!plain || (splits && !std::ranges::all_of(parts, is_whole))) return {};
  Placement before = Placement::whole(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == (splits ? merged : parts[0])) before.dims[i] = slowest;
    else if (std::ranges::find(parts, dims[i]) == parts.end()) before.dims[i] = of_result(dims[i]);
  }
  return before;
}

}  // namespace

std::optional<Placement> before_view(const Graph& graph, const MeshShape& mesh, const Node& view,
                                     const Placement& result) {
  if (const auto grouped = regrouping(view.op))
    return before_regrouping(graph, mesh, view, grouped->merged, grouped->parts, grouped->splits, result);
  if (is_rename(view.op)) return operand_placement(graph, view, 0, result);
  return {};
}

}  // namespace mesh
