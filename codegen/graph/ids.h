// ids.h: typed indices into the tables of a graph or program, so that a dim is never taken for a value.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>

namespace mesh {

template <class Tag>
struct Id {
  static constexpr uint32_t no_index = ~0u;
  uint32_t index = no_index;
  constexpr explicit operator bool() const { return index != no_index; }
  constexpr auto operator<=>(const Id&) const = default;
};

using DimId = Id<struct DimTag>;
using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;
using BodyId = Id<struct BodyTag>;
using RegionId = Id<struct RegionTag>;  // what a schedule may move as one: see gradient/regions.h
using StoredId = Id<struct StoredTag>;  // a tensor that outlives a step: input, parameter, optimizer state, state

}  // namespace mesh

template <class Tag>
struct std::hash<mesh::Id<Tag>> {
  size_t operator()(mesh::Id<Tag> id) const { return id.index; }
};
