#include "codegen/graph/horizon.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace mesh {

std::optional<double> Horizon::number() const {
  return position && position->times.empty() ? std::optional(position->plus) : std::nullopt;
}

bool Horizon::is_causal() const {
  return everything.empty() && fixed.value_or(0) <= 0 &&
         std::ranges::all_of(upto, [](const auto& bound) { return bound.second <= 0; });
}

namespace {

/// From where on the value is settled of `late` against `early`: always where `late` brings nothing into it.
std::optional<int64_t> settled_from(const Horizon& horizon, DimId late, DimId early) {
  std::optional<int64_t> by;
  for (const Settled& one : horizon.settled)
    if (one.late == late && one.early == early) by = std::min(by.value_or(one.by), one.by);
  if (!by && !horizon.upto.contains(late)) by = std::numeric_limits<int64_t>::min();
  return by;
}

void add_settled(Horizon& to, const Settled& fact) {
  if (std::ranges::find(to.settled, fact) == to.settled.end()) to.settled.push_back(fact);
}

void join_bounds(Horizon& all, const Horizon& one) {
  for (const auto& [dim, by] : one.upto) {
    const auto [known, fresh] = all.upto.try_emplace(dim, by);
    if (!fresh) known->second = std::max(known->second, by);
  }
  if (one.fixed) all.fixed = std::max(all.fixed.value_or(*one.fixed), *one.fixed);
  if (all.everything.empty()) all.everything = one.everything;
}

void erase_facts(Horizon& horizon, DimId dim) {
  std::erase_if(horizon.settled, [&](const Settled& one) { return one.late == dim || one.early == dim; });
}

}  // namespace

Horizon joined(std::span<const Horizon> of) {
  Horizon all;
  for (const Horizon& one : of) join_bounds(all, one);
  for (const Horizon& one : of)
    for (const Settled& fact : one.settled) {
      int64_t by = fact.by;
      const bool everywhere = std::ranges::all_of(of, [&](const Horizon& other) {
        const std::optional<int64_t> from = settled_from(other, fact.late, fact.early);
        if (from) by = std::max(by, *from);
        return from.has_value();
      });
      if (everywhere) add_settled(all, {fact.late, fact.early, by, {}});
    }
  return all;
}

Horizon multiplied(const Horizon& a, const Horizon& b) {
  Horizon product = joined(std::array{a, b});
  for (const Horizon* one : {&a, &b})
    for (const Settled& fact : one->settled)
      if (fact.number == 0.0) add_settled(product, fact);
  return product;
}

Horizon without_dim(Horizon horizon, DimId dim, const std::string& why) {
  if (const auto bound = horizon.upto.find(dim); bound != horizon.upto.end()) {
    const Settled* kept_out = nullptr;
    for (const Settled& one : horizon.settled)
      if (one.late == dim && (kept_out == nullptr || one.by < kept_out->by)) kept_out = &one;
    if (kept_out != nullptr) {
      const auto [early, by] = std::pair(kept_out->early, kept_out->by - 1 + bound->second);
      const auto [known, fresh] = horizon.upto.try_emplace(early, by);
      if (!fresh) known->second = std::max(known->second, by);
    } else if (horizon.everything.empty()) {
      horizon.everything = why;
    }
    horizon.upto.erase(dim);
  }
  erase_facts(horizon, dim);
  if (horizon.position && horizon.position->times.contains(dim)) horizon.position.reset();
  return horizon;
}

Horizon shifted(Horizon horizon, DimId from, DimId to, int64_t begin, int64_t step) {
  const auto bound = horizon.upto.find(from);
  const std::optional<int64_t> by = bound == horizon.upto.end() ? std::nullopt : std::optional(bound->second);
  if (by) horizon.upto.erase(from);
  if (by && !to) horizon.fixed = std::max(horizon.fixed.value_or(begin + *by), begin + *by);
  if (by && to && step == 1) horizon.upto[to] = begin + *by;
  if (by && to && step != 1) horizon.everything = "its elements stand further apart than its indices, and so run ahead";
  if (!to || step != 1) erase_facts(horizon, from);
  for (Settled& one : horizon.settled) {
    if (one.late == from) one.late = to, one.by -= begin;
    if (one.early == from) one.early = to, one.by += begin;
  }
  if (!horizon.position) return horizon;
  const auto times = horizon.position->times.find(from);
  if (times == horizon.position->times.end()) return horizon;
  const double factor = times->second;
  horizon.position->times.erase(times);
  horizon.position->plus += factor * static_cast<double>(begin);
  if (to) horizon.position->times[to] = factor * static_cast<double>(step);
  return horizon;
}

Horizon renamed(const Horizon& of, const std::function<DimId(DimId)>& name) {
  Horizon horizon = of;
  horizon.upto.clear();
  for (const auto& [dim, by] : of.upto) horizon.upto[name(dim)] = by;
  for (Settled& one : horizon.settled) one.late = name(one.late), one.early = name(one.early);
  if (horizon.position) {
    horizon.position->times.clear();
    for (const auto& [dim, times] : of.position->times) horizon.position->times[name(dim)] = times;
  }
  return horizon;
}

Horizon along(const Graph& graph, std::span<const Horizon> of, std::span<const DimId> dims, const char* what) {
  Horizon all = joined(of);
  for (const DimId dim : dims) {
    if (all.upto.contains(dim) && all.everything.empty())
      all.everything = fmt::format("it {} `{}`", what, graph.dim(dim).name);
    all.upto.erase(dim);
    erase_facts(all, dim);
  }
  return all;
}

}  // namespace mesh
