#include "codegen/layout/strategy.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace mesh {
namespace {

/// Dim `dim` of operand i as it lies now.
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

const std::vector<AxisId>* axes_of(const DimPlacement* split) { return split ? &split->axes : nullptr; }

bool is_partial_over(const OpContext& op, size_t operand, AxisId axis) {
  if (!op.operands[operand]) return false;
  const auto& partial = op.operands[operand]->partial;
  return std::any_of(partial.begin(), partial.end(),
                     [&](const Partial& p) { return p.axis == axis && p.reduce == Reduce::sum; });
}

bool may_pass(const OpContext& op, AxisId axis) {
  size_t partial = 0;
  for (size_t i = 0; i < op.operands.size(); ++i) partial += is_partial_over(op, i, axis);
  switch (definition(op.node.op).partial(op.graph, op.node)) {
    case PartialRule::completes: return false;
    case PartialRule::first: return partial == 1 && is_partial_over(op, 0, axis);
    case PartialRule::each: return partial == 1;
    case PartialRule::together: return partial == op.operands.size();
  }
  return false;
}

/// Whether an operand lies at one coordinate of an axis, or is a sum over it: a term of one with others.
bool may_be_term(const OpContext& op, size_t operand, AxisId axis) {
  if (!op.operands[operand]) return false;
  const Where* where = op.operands[operand]->where(axis);
  if (is_partial_over(op, operand, axis)) return !where || !where->owner;
  return where && !where->owner && where->coordinates.size() == 1;
}

/// Whether operands that lie at different coordinates may be added up as terms of a sum over the axis. Single numbers
/// are brought to all.
bool may_join(const OpContext& op, AxisId axis) {
  if (definition(op.node.op).partial(op.graph, op.node) != PartialRule::together || op.operands.size() < 2)
    return false;
  if (op.graph.type(op.node.results[0]).dims.empty()) return false;
  bool apart = false;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (!may_be_term(op, i, axis)) return false;
    const Where *where = op.operands[i]->where(axis), *first = op.operands[0]->where(axis);
    apart = apart || (where && first ? *where != *first : where != first) ||
            is_partial_over(op, i, axis) != is_partial_over(op, 0, axis);
  }
  return apart;
}

/// The coordinates that then have terms; nothing where all do.
std::optional<Where> joined_place(const OpContext& op, AxisId axis) {
  std::set<int64_t> coordinates;
  for (const auto& operand : op.operands) {
    const Where* where = operand->where(axis);
    if (!where) return {};
    coordinates.insert(where->coordinates.begin(), where->coordinates.end());
  }
  if (static_cast<int64_t>(coordinates.size()) == op.mesh.axes[axis].size) return {};
  return Where{axis, {coordinates.begin(), coordinates.end()}};
}

/// Of a dim that is merged or split.
bool is_part(const Factor& factor) { return factor.granule > 1 || factor.slower >= 0; }

/// The coordinates of an axis at which operands lie, if it is the same for all that lie at any.
const Where* place_of(const OpContext& op, AxisId axis) {
  if (const auto must = std::ranges::find(op.must_lie, axis, &Where::axis); must != op.must_lie.end()) return &*must;
  const Where* place = nullptr;
  for (const auto& operand : op.operands) {
    const Where* where = operand ? operand->where(axis) : nullptr;
    if (place && where && *place != *where) return nullptr;
    if (where) place = where;
  }
  return op.node.results.empty() ? nullptr : place;  // what has no result tells all ranks something
}

/// Within a manual region over the axis: the factor of the dim that counts its ranks, where it lies on the axis. A
/// region says itself what its ranks have.
std::optional<int> ranks_factor(const OpContext& op, AxisId axis) {
  for (size_t f = 0; f < op.factors.size(); ++f)
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const DimId dim = op.factors[f].operands[i];
      if (std::ranges::count(op.graph.ranks_dims, dim, &RanksDim::dim) == 0) continue;
      const std::vector<AxisId>* axes = axes_of(split_of(op, i, dim));
      const bool even = op.factors[f].granule == 1 || op.factors[f].size % op.mesh.axes[axis].size == 0;
      if (axes && *axes == std::vector{axis} && even) return static_cast<int>(f);
    }
  return {};
}

/// Of what a rule has in parts over the axis, as the op's own work is: these go round.
std::optional<int> ring_factor(const OpContext& op, AxisId axis) {
  if (!contains(op.in_ring, axis)) return {};
  for (size_t f = 0; f < op.factors.size(); ++f) {
    const Factor& factor = op.factors[f];
    if (!factor.circulates || factor.size < op.mesh.axes[axis].size) continue;
    const std::vector<AxisId>* now = axes_of(split_of(op, 0, factor.operands[0]));
    bool split = now && contains(*now, axis);
    for (size_t r = 0; r < op.declared.size(); ++r)
      if (const auto* axes = axes_of(declared_split(op, r, factor.results[r]));
          axes && factor.results[r] == factor.operands[0])
        split = split || contains(*axes, axis);
    if (split) return static_cast<int>(f);
  }
  return {};
}

bool may_split(const OpContext& op, const Factor& factor) {
  return factor.splittable && (op.stretches || !factor.is_stretched());
}

constexpr int no_factor = -1, passes = -2, stays = -3, joins = -4;

/// What may become of one axis, the preferred choice on equal cost first.
std::vector<int> choices(const OpContext& op, AxisId axis) {
  if (std::ranges::count(op.must_lie, axis, &Where::axis) > 0) return {stays};
  if (const std::optional<int> ranks = ranks_factor(op, axis)) return {*ranks};
  if (const std::optional<int> ring = ring_factor(op, axis)) return {*ring};
  if (may_join(op, axis)) return {joins};
  std::vector<int> claims;
  bool operand_claims = false;
  for (size_t f = 0; f < op.factors.size(); ++f) {
    const Factor& factor = op.factors[f];
    if (!may_split(op, factor)) continue;
    bool claimed = false;
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (const auto* axes = axes_of(split_of(op, i, factor.operands[i])); axes && contains(*axes, axis))
        claimed = operand_claims = true;
    for (size_t r = 0; r < op.declared.size(); ++r)
      if (const auto* axes = axes_of(declared_split(op, r, factor.results[r])); axes && contains(*axes, axis))
        claimed = true;
    if (claimed) claims.push_back(static_cast<int>(f));
  }
  // Nothing competes for the axis: splitting costs nothing more than what is there. With parts that go round or not is
  // one claim.
  const auto circulates = [&](int f) { return op.factors[static_cast<size_t>(f)].circulates; };
  if (claims.size() - static_cast<size_t>(std::ranges::count_if(claims, circulates)) == 1 && operand_claims &&
      !is_part(op.factors[claims[0]]) && !op.factors[claims[0]].weigh)
    return claims;
  std::vector<int> all{no_factor};
  all.insert(all.end(), claims.begin(), claims.end());
  if (may_pass(op, axis)) all.insert(is_view(op.node.op) ? all.begin() : all.end(), passes);
  if (place_of(op, axis)) all.insert(is_view(op.node.op) ? all.begin() : all.end(), stays);
  return all;
}

/// Major first: as the first operand or rule that has all of them lists them, else in order of appearance.
std::vector<AxisId> ordered(const OpContext& op, const Factor& factor, const std::vector<AxisId>& chosen) {
  if (chosen.size() < 2) return chosen;
  std::vector<AxisId> appearing;
  const auto consider = [&](const std::vector<AxisId>* axes) {
    if (!axes) return false;
    std::vector<AxisId> kept;
    for (AxisId axis : *axes)
      if (contains(chosen, axis)) kept.push_back(axis);
    for (AxisId axis : kept)
      if (!contains(appearing, axis)) appearing.push_back(axis);
    if (kept.size() < chosen.size()) return false;
    appearing = kept;
    return true;
  };
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (consider(axes_of(split_of(op, i, factor.operands[i])))) return appearing;
  for (size_t r = 0; r < op.declared.size(); ++r)
    if (consider(axes_of(declared_split(op, r, factor.results[r])))) return appearing;
  return appearing;
}

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

/// The reverse: how its elements are dealt where whole steps are.
Deal deal_of_elements(const Factor& factor, const Deal& deal, int64_t parts) {
  Table table = table_of(factor.size, deal, parts);
  for (auto& ranges : table)
    for (meshrt::IndexRange& range : ranges) range = {range.begin * factor.granule, range.end * factor.granule};
  return deal_by_table(factor.size * factor.granule, std::move(table));
}

/// Whether the factor is the slowest part of the dim.
bool is_merged(const OpContext& op, const Factor& factor, DimId dim) {
  return factor.granule > 1 && factor.slower < 0 && op.graph.dim(dim).size == factor.size * factor.granule;
}

/// How the steps of a merged dim's slowest part are dealt to the axes where operands or rules deal unlike parts. None
/// is empty but where a deal says so.
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

/// How a factor may be dealt to its axes: as operands and rules that split it over just these have it.
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

/// Whether the dim along which parts meet what goes round is dealt, and cut further over other axes: there is no deal
/// that says so.
bool cuts_what_is_dealt(const OpContext& op, const Strategy& strategy) {
  const auto along = [&](size_t f) { return strategy.factor_axes[f].empty() ? DimId{} : op.factors[f].operands[0]; };
  for (size_t ring = 0; ring < op.factors.size(); ++ring)
    for (size_t f = 0; f < op.factors.size(); ++f)
      if (f != ring && op.factors[ring].circulates && along(ring) && along(f) == along(ring) &&
          (strategy.factor_deals[ring] || strategy.factor_deals[f]))
        return true;
  return false;
}

/// The strategy with each way to deal its factors to their axes.
std::vector<Strategy> dealt(const OpContext& op, const Strategy& strategy) {
  std::vector<Strategy> all{strategy};
  all.front().factor_deals.assign(op.factors.size(), Deal{});
  for (size_t f = 0; f < op.factors.size(); ++f) {
    std::vector<Strategy> more;
    for (const Deal& deal : deals(op, op.factors[f], strategy.factor_axes[f]))
      for (Strategy one : all) {
        one.factor_deals[f] = deal;
        more.push_back(std::move(one));
      }
    all = std::move(more);
  }
  std::erase_if(all, [&](const Strategy& one) { return cuts_what_is_dealt(op, one); });
  return all;
}

/// Whether two factors are ways to split one dim.
bool share_a_dim(const Factor& a, const Factor& b) {
  const auto same = [](DimId one, DimId other) { return one && one == other; };
  return !std::ranges::equal(a.operands, b.operands, std::not_fn(same)) ||
         !std::ranges::equal(a.results, b.results, std::not_fn(same));
}

/// Of a factor that is split while those before it in a merged dim are whole: in how many rounds that deals its
/// elements to the ranks. 0: in none.
int64_t in_rounds(const OpContext& op, const Strategy& strategy, size_t f) {
  if (op.factors[f].slower < 0 || strategy.factor_axes[f].empty()) return 0;
  int64_t rounds = 1;
  for (int slower = op.factors[f].slower; slower >= 0; slower = op.factors[static_cast<size_t>(slower)].slower) {
    if (!strategy.factor_axes[static_cast<size_t>(slower)].empty()) return 0;
    rounds *= op.factors[static_cast<size_t>(slower)].size;
  }
  return rounds;
}

/// Every rank must own whole steps of a merged dim, or a part of a single one.
bool is_legal(const OpContext& op, const Strategy& strategy) {
  const auto ranks = [&](size_t f) { return op.mesh.size(strategy.factor_axes[f]); };
  for (size_t f = 0; f < op.factors.size(); ++f) {
    const Factor& factor = op.factors[f];
    if (factor.granule > 1 && factor.size % ranks(f) != 0 &&
        deals_of_steps(op, factor, strategy.factor_axes[f]).empty())
      return false;
    if (factor.circulates && factor.size < ranks(f)) return false;
    if (strategy.factor_axes[f].empty()) continue;
    for (size_t other = 0; factor.other_way && other < op.factors.size(); ++other)
      if (other != f && !strategy.factor_axes[other].empty() && share_a_dim(factor, op.factors[other])) return false;
    if (op.stretches && in_rounds(op, strategy, f) > 0 && factor.size >= ranks(f)) continue;
    for (int slower = factor.slower; slower >= 0; slower = op.factors[slower].slower)
      if (op.factors[slower].size != ranks(slower)) return false;
  }
  return true;
}

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

std::vector<Strategy> strategies(const OpContext& op) {
  std::vector<AxisId> axes(op.mesh.axes.size());
  std::iota(axes.begin(), axes.end(), AxisId{0});
  std::vector<std::vector<int>> options;
  options.reserve(axes.size());
  for (const AxisId axis : axes)
    options.push_back(op.mesh.axes[axis].size > 1 ? choices(op, axis) : std::vector<int>{no_factor});
  std::vector<Strategy> all;
  std::vector<size_t> at(options.size(), 0);
  for (bool more = true; more;) {
    Strategy strategy{std::vector<std::vector<AxisId>>(op.factors.size()), {}, {}, {}};
    for (const AxisId axis : axes) {
      const int choice = options[axis][at[axis]];
      if (choice == passes || choice == joins) strategy.passing.push_back(axis);
      if (choice == stays) strategy.staying.push_back(*place_of(op, axis));
      if (choice == joins) {
        strategy.joining.push_back(axis);
        if (const auto place = joined_place(op, axis)) strategy.staying.push_back(*place);
      }
      if (choice >= 0) strategy.factor_axes[choice].push_back(axis);
    }
    for (size_t f = 0; f < op.factors.size(); ++f)
      strategy.factor_axes[f] = ordered(op, op.factors[f], strategy.factor_axes[f]);
    if (is_legal(op, strategy)) std::ranges::move(dealt(op, strategy), std::back_inserter(all));
    more = false;
    for (size_t axis = options.size(); axis-- > 0 && !more;) {
      if (++at[axis] < options[axis].size()) more = true;
      else at[axis] = 0;
    }
  }
  if (!all.empty() || op.in_ring.empty()) return all;
  OpContext otherwise = op;  // a dim has fewer elements than the axes of its rules have ranks: it does not go round
  otherwise.in_ring.clear();
  return strategies(otherwise);
}

std::vector<Strategy> neighbours(const OpContext& op, const Strategy& strategy) {
  std::vector<Strategy> all;
  for (AxisId axis = 0; axis != op.mesh.axes.size(); ++axis) {
    if (op.mesh.axes[axis].size == 1 || std::ranges::count(op.must_lie, axis, &Where::axis) > 0) continue;
    if (ranks_factor(op, axis) || ring_factor(op, axis)) continue;
    Strategy without = strategy;
    std::erase(without.passing, axis);
    std::erase(without.joining, axis);
    std::erase_if(without.staying, [&](const Where& where) { return where.axis == axis; });
    for (auto& axes : without.factor_axes) std::erase(axes, axis);
    for (size_t f = 0; f < op.factors.size(); ++f) {
      Strategy other = without;
      other.factor_axes[f].push_back(axis);
      if (may_split(op, op.factors[f]) && op.factors[f].size >= op.mesh.size(other.factor_axes[f]) &&
          is_legal(op, other) && other.factor_axes != strategy.factor_axes)
        std::ranges::move(dealt(op, other), std::back_inserter(all));
    }
  }
  return all;
}

}  // namespace mesh
