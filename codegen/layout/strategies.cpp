// strategies.cpp: which strategies an op has, from what each mesh axis may do.
#include <algorithm>
#include <numeric>
#include <set>

#include "codegen/layout/factor_deals.h"
#include "codegen/layout/strategy.h"

namespace mesh {
namespace {

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

/// Whether steps of a merged dim are dealt, and each is cut further over other axes: likewise.
bool cuts_dealt_steps(const OpContext& op, const Strategy& strategy) {
  for (size_t f = 0; f < op.factors.size(); ++f)
    for (int slower = strategy.factor_axes[f].empty() ? -1 : op.factors[f].slower; slower >= 0;
         slower = op.factors[static_cast<size_t>(slower)].slower)
      if (strategy.factor_deals[static_cast<size_t>(slower)]) return true;
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
  std::erase_if(all, [&](const Strategy& one) { return cuts_what_is_dealt(op, one) || cuts_dealt_steps(op, one); });
  return all;
}

/// Whether two factors are ways to split one dim.
bool share_a_dim(const Factor& a, const Factor& b) {
  const auto same = [](DimId one, DimId other) { return one && one == other; };
  return !std::ranges::equal(a.operands, b.operands, std::not_fn(same)) ||
         !std::ranges::equal(a.results, b.results, std::not_fn(same));
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

}  // namespace

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
