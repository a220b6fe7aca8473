// map_causality.cpp: of which positions an elementwise function is made. Comparisons of positions are what masks are
// made of: they say from where on a later position stays out.
#include <cmath>

#include "codegen/graph/ops/definitions.h"

namespace mesh::ops {
namespace {

using F = MapFunction;

PositionSum sum(PositionSum a, const PositionSum& b, double times) {
  a.plus += times * b.plus;
  for (const auto& [dim, factor] : b.times)
    if ((a.times[dim] += times * factor) == 0) a.times.erase(dim);
  return a;
}

PositionSum scaled(const PositionSum& a, double times) { return times == 0 ? PositionSum{} : sum({}, a, times); }

/// The result in positions, where it is one.
std::optional<PositionSum> position_of(F function, std::span<const Horizon> of) {
  for (const Horizon& one : of)
    if (!one.position) return {};
  const PositionSum& a = *of[0].position;
  const std::optional<double> number = of.size() > 1 ? of[1].number() : std::nullopt;
  switch (function) {
    case F::add: return sum(a, *of[1].position, 1);
    case F::subtract: return sum(a, *of[1].position, -1);
    case F::negate: return scaled(a, -1);
    case F::multiply:
      if (number) return scaled(a, *number);
      return of[0].number() ? std::optional(scaled(*of[1].position, *of[0].number())) : std::nullopt;
    case F::divide: return number && *number != 0 ? std::optional(scaled(a, 1 / *number)) : std::nullopt;
    case F::cast:
    case F::cast_part:
    case F::copy: return a;
    default: return {};
  }
}

/// What `difference` > 0 (or >= 0, `or_equal`) is where the indices of two dims lie apart: false or true for good.
/// Of more dims, or one, nothing is known.
void settle_comparison(Horizon& horizon, const PositionSum& difference, bool or_equal, double yes) {
  if (difference.times.size() != 2) return;
  const auto a = difference.times.begin(), b = std::next(a);
  if (a->second != -b->second) return;
  const auto& [x, times] = a->second > 0 ? *a : *b;
  const DimId y = a->second > 0 ? b->first : a->first;
  const double k = difference.plus / times;  // x - y + k > 0
  const auto next = [](double at, bool above) {
    return static_cast<int64_t>(above ? std::floor(at) + 1 : std::ceil(at));
  };
  horizon.settled.push_back({y, x, next(k, or_equal), 1 - yes});
  horizon.settled.push_back({x, y, next(-k, !or_equal), yes});
}

void settle(Horizon& horizon, F function, std::span<const Horizon> of) {
  if (of.size() != 2 || !of[0].position || !of[1].position) return;
  const PositionSum difference = sum(*of[0].position, *of[1].position, -1), opposite = scaled(difference, -1);
  switch (function) {
    case F::greater: return settle_comparison(horizon, difference, false, 1);
    case F::greater_equal: return settle_comparison(horizon, difference, true, 1);
    case F::less: return settle_comparison(horizon, opposite, false, 1);
    case F::less_equal: return settle_comparison(horizon, opposite, true, 1);
    case F::equal:
    case F::not_equal: {  // neither above nor below
      Horizon apart;
      settle_comparison(apart, difference, false, 1);
      settle_comparison(apart, opposite, false, 1);
      for (Settled fact : apart.settled) {
        if (fact.number != 1.0) continue;
        fact.number = function == F::equal ? 0 : 1;
        horizon.settled.push_back(fact);
      }
      return;
    }
    default: return;
  }
}

/// What one operand alone decides.
std::optional<double> deciding(F function) {
  switch (function) {
    case F::logical_and:
    case F::multiply: return 0;
    case F::logical_or: return 1;
    case F::add: return -INFINITY;
    default: return {};
  }
}

/// The function of a number that a settled element is; nothing where that is not asked for.
std::optional<double> of_number(F function, double number) {
  switch (function) {
    case F::logical_not: return 1 - number;
    case F::negate: return -number;
    case F::exp: return std::exp(number);
    case F::cast:
    case F::cast_part:
    case F::copy: return number;
    default: return {};
  }
}

/// Where the condition is settled the result is one of the two, and where that is a number, or settled, so is the
/// result.
void settle_choice(Horizon& horizon, std::span<const Horizon> of) {
  for (const Settled& fact : of[0].settled) {
    if (!fact.number) continue;
    const Horizon& chosen = of[*fact.number != 0 ? 1 : 2];
    if (!chosen.upto.contains(fact.late)) horizon.settled.push_back({fact.late, fact.early, fact.by, chosen.number()});
    else
      for (const Settled& own : chosen.settled)
        if (own.late == fact.late && own.early == fact.early)
          horizon.settled.push_back({own.late, own.early, std::max(own.by, fact.by), own.number});
  }
}

}  // namespace

Horizons map_horizon(const Graph&, const Node& node, std::span<const Horizon> of) {
  const F function = std::get<MapOp>(node.op).function;
  Horizon horizon = joined(of);
  horizon.position = position_of(function, of);
  settle(horizon, function, of);
  if (const std::optional<double> number = deciding(function))
    for (const Horizon& one : of)
      for (const Settled& fact : one.settled)
        if (fact.number == number) horizon.settled.push_back(fact);
  if (of.size() == 1)
    for (const Settled& fact : of[0].settled)
      if (fact.number) horizon.settled.push_back({fact.late, fact.early, fact.by, of_number(function, *fact.number)});
  if (function == F::where) settle_choice(horizon, of);
  return {horizon};
}

}  // namespace mesh::ops
