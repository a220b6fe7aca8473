#include "codegen/program/step_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/print_program.h"

namespace mesh {

void StepMessages::say(const std::string& what) { messages.push_back(summary(program_, step_) + " " + what); }

std::string StepMessages::name(DimId dim) const { return program_.sharded.graph.dim(dim).name; }

std::optional<DimPlacement> StepMessages::part(const Access& access, DimId dim) const {
  for (const LocalDim& local : dims_of(program_, access))
    if (local.dim == dim) return local.placement;
  return {};
}

void StepMessages::same_parts(const std::vector<Access>& accesses, bool reads_beside) {
  std::map<DimId, DimPlacement> parts;
  for (const Access& access : accesses)
    for (const LocalDim& local : dims_of(program_, access)) {
      const DimPlacement& placement = reads_beside ? without_margin(local).placement : local.placement;
      if (const auto [known, fresh] = parts.emplace(local.dim, placement); !fresh && known->second != placement)
        say(fmt::format("meets dim {} split in two ways", name(local.dim)));
    }
}

void StepMessages::stops(const LoopBound& bound) {
  const Buffer& last = program_.buffer(bound.last.buffer);
  if (last.type != Type::i32 || !dims_of(program_, bound.last).empty())
    say(fmt::format("stops along {} at {}, which is no index", name(bound.along.dim), to_string(program_, bound.last)));
  if (bound.along.placement.deal || bound.along.placement.margin)
    say(fmt::format("stops along {}, which is not held in order and alone", name(bound.along.dim)));
}

void StepMessages::mapped(const Access& access, const IndexMap& map, const std::vector<LocalDim>& dims) {
  const std::vector<LocalDim>& held = program_.buffer(access.buffer).dims;
  if (map.position < access.turns.size() || map.position >= held.size())
    return say(fmt::format("leads along a dim that {} lacks", to_string(program_, access)));
  if (map.turn) return;  // verify_program.cpp
  const auto along = std::find_if(dims.begin(), dims.end(), [&](const LocalDim& d) { return d.dim == map.along; });
  if (map.along && along == dims.end())
    return say(
        fmt::format("leads along {} in {} and does not iterate over it", name(map.along), to_string(program_, access)));
  if (!held[map.position].placement.deal.in_order() || (map.along && !along->placement.deal.in_order()))
    return say(fmt::format("leads along {} in {}, which is not held in order", name(held[map.position].dim),
                           to_string(program_, access)));
  const int at = map.along ? static_cast<int>(along - dims.begin()) : -1;
  if (!map.outside && !always_inside(program_, {map, at, map.along ? *along : LocalDim{}, held[map.position]}))
    say(fmt::format("leads to elements that {} does not hold", to_string(program_, access)));
}

void StepMessages::readable(const Access& access, const std::vector<LocalDim>& dims) {
  for (const IndexMap& map : access.maps) mapped(access, map, dims);
  for (size_t position = access.turns.size(); position < program_.buffer(access.buffer).dims.size(); ++position) {
    const LocalDim& held = program_.buffer(access.buffer).dims[position];
    if (map_at(access, position)) continue;
    const auto found = std::find_if(dims.begin(), dims.end(), [&](const LocalDim& d) { return d.dim == held.dim; });
    if (found == dims.end()) {
      say(fmt::format("does not iterate over dim {} of {}", name(held.dim), to_string(program_, access)));
      continue;
    }
    if (found->placement != held.placement) holds(access, held, *found);
  }
}

void StepMessages::holds(const Access& access, const LocalDim& held, const LocalDim& asked) {
  const Deal &asked_for = asked.placement.deal, &lies = held.placement.deal;
  if (asked_for != lies && !(asked_for.in_order() && lies.in_order()))
    return say(fmt::format("reads dim {} of {} in another order than it is held in", name(held.dim),
                           to_string(program_, access)));
  for (int64_t rank = 0; rank < program_.sharded.layout.mesh.ranks(); ++rank) {
    const Range all = local_range(program_, held, rank), needs = local_range(program_, asked, rank);
    if (needs.size() == 0 || (needs.begin >= all.begin && needs.end <= all.end)) continue;
    return say(fmt::format("reads [{}, {}) of dim {} of {}, of which rank {} holds [{}, {})", needs.begin, needs.end,
                           name(held.dim), to_string(program_, access), rank, all.begin, all.end));
  }
}

}  // namespace mesh
