#include "codegen/program/take_turn.h"

#include <algorithm>

#include "codegen/graph/builder.h"
#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/print_program.h"

namespace mesh {

namespace {

void without(std::vector<LocalDim>& dims, DimId dim) {
  std::erase_if(dims, [&](const LocalDim& one) { return one.dim == dim; });
}

bool leads(const Program& program, const Access& access, DimId dim) {
  return position_of(program, access, dim).value_or(access.turns.size()) == access.turns.size();
}

/// The same, along whichever dims.
Nest nest_of(const Program& program, const CopyStep& copy) {
  const std::span<const LocalDim> dims = dims_of(program, copy.to);
  Pass pass;
  pass.inner.assign(dims.begin(), dims.end());
  pass.scalars.push_back({Scalar::Load{copy.from}, program.buffer(copy.from.buffer).type});
  pass.stores.push_back({0, copy.to});
  return {{}, {std::move(pass)}, {}};
}

/// As a leading dim where it is one; inputs have the samples in front of it.
void take_turn(Access& access, size_t position, LoopId loop) {
  if (position == access.turns.size()) access.turns.emplace_back(loop);
  else access = mapped(std::move(access), {position, {}, 0, 1, 1, {}, loop});
}

void take_turn(Scalar& scalar, DimId dim, LoopId loop) {
  if (const auto* index = std::get_if<Scalar::Index>(&scalar.what); index && index->dim == dim)
    scalar.what = Scalar::Turn{loop};
  if (auto* random = std::get_if<Scalar::Random>(&scalar.what))
    for (Scalar::Random::Counted& counted : random->dims)
      if (counted.dim == dim) counted.turn = loop;
}

bool has_whole(std::span<const LocalDim> dims, DimId dim) {
  return std::ranges::find(dims, LocalDim{dim, {}}) != dims.end();
}

}  // namespace

std::optional<size_t> position_of(const Program& program, const Access& access, DimId dim) {
  const std::span<const LocalDim> dims = dims_of(program, access);
  const auto found = std::ranges::find(dims, dim, &LocalDim::dim);
  if (found == dims.end()) return {};
  return access.turns.size() + static_cast<size_t>(found - dims.begin());
}

bool may_take_turns(const Program& program, const Step& step, DimId dim) {
  const auto* nest = std::get_if<Nest>(&step.what);
  if (!nest || !nest->bounds.empty()) return false;
  const bool outer = has_whole(nest->outer, dim);
  for (const Pass& pass : nest->passes) {
    if (!pass.accumulates.empty()) return false;
    if (!outer && (!has_whole(pass.inner, dim) || !pass.reductions.empty())) return false;
  }
  bool keeps = true;
  for_each_access(step, [&](const Access& access, Use use) {
    const std::optional<size_t> position = position_of(program, access, dim);
    const bool leads = position == access.turns.size() && has_whole(dims_of(program, access), dim);
    const bool lacks = !position && use == Use::read;
    const bool walks = std::ranges::any_of(
        access.maps, [&](const IndexMap& map) { return map.along == dim || map.position == position; });
    keeps = keeps && (leads || lacks) && !walks;
  });
  return keeps;
}

void take_turn(const Program& program, Step& step, DimId dim, LoopId loop) {
  if (const auto* copy = std::get_if<CopyStep>(&step.what);
      copy && !(leads(program, copy->from, dim) && leads(program, copy->to, dim)))
    step.what = nest_of(program, *copy);
  if (auto* nest = std::get_if<Nest>(&step.what)) {
    without(nest->outer, dim);
    for (Pass& pass : nest->passes) {
      without(pass.inner, dim);
      for (Scalar& scalar : pass.scalars) take_turn(scalar, dim, loop);
    }
  } else if (auto* product = std::get_if<ProductStep>(&step.what)) {
    std::erase(product->batch, dim);
  } else if (auto* moved = std::get_if<CollectiveStep>(&step.what)) {
    without(moved->before, dim);
    without(moved->after, dim);
    for (int* at : {&moved->from_dim, &moved->to_dim}) *at = std::max(*at - 1, -1);
  } else if (!std::holds_alternative<CopyStep>(step.what) && !std::holds_alternative<FillStep>(step.what)) {
    internal_error("a turn of a loop cannot make of what goes over all turns: " + summary(program, step));
  }
  for_each_access(step, [&](Access& access, Use) {
    if (const auto position = position_of(program, access, dim)) take_turn(access, *position, loop);
  });
}

}  // namespace mesh
