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

bool same_slots(const Access& a, const Access& b) {
  return std::ranges::equal(a.turns, b.turns, [](const TurnIndex& i, const TurnIndex& j) {
    return i.offset == j.offset && i.period == j.period;
  });
}

bool same_dims(const Program& program, const Access& a, const Access& b) {
  return std::ranges::equal(dims_of(program, a), dims_of(program, b));
}

}  // namespace mesh
