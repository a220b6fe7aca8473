#include "codegen/program/single_map.h"

#include <algorithm>

#include "codegen/program/extent.h"

namespace mesh {

const Access* SingleMap::load(size_t operand) const {
  const auto* load = std::get_if<Scalar::Load>(&operands[operand]->what);
  return load ? &load->access : nullptr;
}

std::optional<SingleMap> single_map(const Step& step) {
  const auto* nest = std::get_if<Nest>(&step.what);
  if (!nest || !nest->outer.empty() || nest->passes.size() != 1) return {};
  const Pass& pass = nest->passes[0];
  if (pass.stores.size() != 1 || !pass.reductions.empty() || !pass.accumulates.empty()) return {};
  const auto* apply = std::get_if<Scalar::Apply>(&pass.scalars[static_cast<size_t>(pass.stores[0].scalar)].what);
  if (!apply || static_cast<size_t>(pass.stores[0].scalar) + 1 != pass.scalars.size()) return {};
  const auto is_mapped = [](const Scalar& scalar) {
    const auto* load = std::get_if<Scalar::Load>(&scalar.what);
    return load && !load->access.maps.empty();
  };
  if (!pass.stores[0].to.maps.empty() || std::ranges::any_of(pass.scalars, is_mapped)) return {};
  SingleMap map{apply->function, {}, pass.stores[0].to};
  for (int operand : apply->operands) map.operands.push_back(&pass.scalars[static_cast<size_t>(operand)]);
  return map;
}

std::optional<AddedTo> added_to(const Step& step) {
  const std::optional<SingleMap> map = single_map(step);
  if (!map || map->function != MapFunction::add) return {};
  const Access *first = map->load(0), *second = map->load(1);
  if (first == nullptr || second == nullptr || (*first == map->to) == (*second == map->to)) return {};
  const bool sum_first = *first == map->to;
  return AddedTo{map->to, sum_first ? *second : *first, sum_first};
}

const Access* SingleStore::load() const {
  const auto* load = std::get_if<Scalar::Load>(&value->what);
  return load ? &load->access : nullptr;
}

std::optional<SingleStore> single_store(const Step& step) {
  const auto* nest = std::get_if<Nest>(&step.what);
  if (!nest || !nest->outer.empty() || nest->passes.size() != 1 || !nest->rows.empty() || !nest->bounds.empty())
    return {};
  const Pass& pass = nest->passes[0];
  if (pass.scalars.size() != 1 || pass.stores.size() != 1 || !pass.accumulates.empty()) return {};
  const Scalar& value = pass.scalars[0];
  if (!std::holds_alternative<Scalar::Load>(value.what) && !std::holds_alternative<Scalar::Literal>(value.what))
    return {};
  return SingleStore{&value, pass.inner, pass.stores[0].to};
}

std::optional<Copy> copy_of(const Program& program, const Step& step) {
  const std::optional<SingleStore> store = single_store(step);
  if (!store || !store->load() || !same_dims(program, store->to, *store->load())) return {};
  return Copy{*store->load(), store->to};
}

bool same_slots(const Access& a, const Access& b) {
  return std::ranges::equal(a.turns, b.turns, [](const TurnIndex& i, const TurnIndex& j) {
    return i.offset == j.offset && i.period == j.period;
  });
}

bool same_dims(const Program& program, const Access& a, const Access& b) {
  return std::ranges::equal(dims_of(program, a), dims_of(program, b));
}

}  // namespace mesh
