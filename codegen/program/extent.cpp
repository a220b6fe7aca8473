#include "codegen/program/extent.h"

#include <algorithm>

#include "codegen/graph/builder.h"

namespace mesh {

namespace {

const MeshShape& mesh_of(const Program& program) { return program.sharded.layout.mesh; }
int64_t size_of(const Program& program, DimId dim) { return program.sharded.graph.dim(dim).size; }

}  // namespace

Range local_range(const Program& program, const LocalDim& local, int64_t rank) {
  const Range own = owned_positions(mesh_of(program), size_of(program, local.dim), local.placement, rank);
  return {own.begin - local.placement.margin.before, own.end + local.placement.margin.after};
}

std::vector<int64_t> global_indices(const Program& program, const LocalDim& local, int64_t rank) {
  const Range own = local_range(program, local, rank);
  return meshrt::indices_at(size_of(program, local.dim), local.placement.deal, own.begin, own.end);
}

LocalDim without_margin(const LocalDim& local) {
  LocalDim own = local;
  own.placement.margin = {};
  return own;
}

int64_t local_extent(const Program& program, const LocalDim& local, int64_t rank) {
  return local_range(program, local, rank).size();
}

int64_t largest_extent(const Program& program, const LocalDim& local) {
  return largest_extent(mesh_of(program), size_of(program, local.dim), local.placement);
}

int64_t largest_extent(const Program& program, const LocalDim& local, const std::vector<AxisId>& axes, int64_t rank) {
  const MeshShape& mesh = mesh_of(program);
  const std::vector<AxisId>& split = local.placement.axes;
  std::vector<int64_t> ranks{rank};  // one for each part that is at its coordinates
  for (const AxisId axis : split) {
    if (contains(axes, axis)) continue;
    const size_t known = ranks.size();
    for (int64_t step = 1; step < mesh.axes[axis].size; ++step)
      for (size_t i = 0; i < known; ++i) {
        const int64_t here = mesh.coordinate(ranks[i], axis), there = (here + step) % mesh.axes[axis].size;
        ranks.push_back(ranks[i] + (there - here) * mesh.axes[axis].stride);
      }
  }
  int64_t most = 0;
  for (const int64_t one : ranks) most = std::max(most, local_extent(program, local, one));
  return most;
}

bool is_even(const Program& program, const LocalDim& local) {
  return is_even(mesh_of(program), size_of(program, local.dim), local.placement);
}

BufferId storage(const Program& program, BufferId id) {
  const BufferId of = program.buffer(id).view_of;
  return of ? of : id;
}

int64_t stride(const Program& program, const Buffer& buffer, size_t position, int64_t rank) {
  int64_t elements = 1;
  for (size_t i = position + 1; i < buffer.dims.size(); ++i) elements *= local_extent(program, buffer.dims[i], rank);
  return elements;
}

int64_t local_elements(const Program& program, const Buffer& buffer, int64_t rank) {
  int64_t elements = 1;
  for (const LocalDim& dim : buffer.dims) elements *= local_extent(program, dim, rank);
  return elements;
}

int64_t largest_elements(const Program& program, const Buffer& buffer) {
  int64_t elements = 1;
  for (const LocalDim& dim : buffer.dims) elements *= largest_extent(program, dim);
  return elements;
}

int64_t largest_elements(const Program& program, const Buffer& buffer, const std::vector<AxisId>& axes, int64_t rank) {
  const int64_t all = largest_elements(program, buffer);
  if (buffer.dims.empty()) return all;
  const LocalDim& slots = buffer.dims[0];
  return all / std::max<int64_t>(1, largest_extent(program, slots)) * largest_extent(program, slots, axes, rank);
}

std::vector<FixedDim> fixed_dims(const Access& access) {
  std::vector<FixedDim> fixed;
  for (size_t k = 0; k < access.turns.size(); ++k) fixed.push_back({k, access.turns[k]});
  for (const IndexMap& map : access.maps)
    if (map.turn) fixed.push_back({map.position, map.turn});
  return fixed;
}

int64_t slot(const Program& program, const Buffer& buffer, const FixedDim& fixed, int64_t turn, int64_t rank) {
  const LocalDim& local = buffer.dims[fixed.position];
  const std::vector<AxisId>& axes = local.placement.axes;
  const int64_t slot = fixed.turn.slot(turn);
  if (axes.empty()) return slot;
  const MeshShape& mesh = mesh_of(program);
  const meshrt::Owners owners(size_of(program, local.dim), index_over(mesh, axes, rank), mesh.size(axes),
                              local.placement.deal);
  return owners.slot(slot);
}

std::span<const LocalDim> dims_of(const Program& program, const Access& access) {
  return std::span(program.buffer(access.buffer).dims).subspan(access.turns.size());
}

std::span<const LocalDim> head_dims(const Program& program, const AttentionStep& step) {
  const std::span<const LocalDim> all = dims_of(program, step.log_sum), keys = dims_of(program, step.k),
                                  batch = all.first(all.size() - 1);
  const auto is_shared = [&](const LocalDim& held) {
    return std::ranges::find(keys, held.dim, &LocalDim::dim) == keys.end();
  };
  size_t count = 0;
  while (count < batch.size() && is_shared(batch[batch.size() - 1 - count])) ++count;
  return batch.last(std::min(std::max<size_t>(count, 1), batch.size()));
}

const IndexMap* map_at(const Access& access, size_t position) {
  for (const IndexMap& map : access.maps)
    if (map.position == position) return &map;
  return nullptr;
}

Access mapped(Access access, const IndexMap& map) {
  const auto after = std::find_if(access.maps.begin(), access.maps.end(),
                                  [&](const IndexMap& other) { return other.position > map.position; });
  access.maps.insert(after, map);
  return access;
}

Address address_of(const Program& program, const Access& access, std::span<const LocalDim> nest) {
  const Buffer& buffer = program.buffer(access.buffer);
  Address address{access.buffer, fixed_dims(access), std::vector<int>(nest.size(), -1), {}, {}};
  for (size_t position = access.turns.size(); position < buffer.dims.size(); ++position) {
    const LocalDim& held = buffer.dims[position];
    if (const IndexMap* map = map_at(access, position)) {
      if (map->turn) continue;
      const auto along =
          std::find_if(nest.begin(), nest.end(), [&](const LocalDim& local) { return local.dim == map->along; });
      if (map->along && along == nest.end())
        internal_error("a step that leads along a dim of buffer " + buffer.name + " does not iterate over " +
                       program.sharded.graph.dim(map->along).name);
      const int at = map->along ? static_cast<int>(along - nest.begin()) : -1;
      address.mapped.push_back({*map, at, map->along ? *along : LocalDim{}, held});
      continue;
    }
    size_t at = 0;
    while (at < nest.size() && nest[at].dim != held.dim) ++at;
    if (at == nest.size())
      internal_error("a step does not iterate over dim " + program.sharded.graph.dim(held.dim).name + " of buffer " +
                     buffer.name);
    address.positions[at] = static_cast<int>(position);
    if (nest[at].placement != held.placement) address.shifts.push_back({static_cast<int>(at), nest[at], held});
  }
  return address;
}

int64_t base(const Program& program, const Address& address, std::span<const int64_t> turns, int64_t rank) {
  const Buffer& buffer = program.buffer(address.buffer);
  int64_t elements = 0;
  for (const FixedDim& fixed : address.fixed) {
    const LoopId loop = fixed.turn.loop;
    elements += slot(program, buffer, fixed, loop ? turns[loop.index] : 0, rank) *
                stride(program, buffer, fixed.position, rank);
  }
  for (const Address::Shift& shift : address.shifts) {
    const int64_t distance =
        local_range(program, shift.iterated, rank).begin - local_range(program, shift.held, rank).begin;
    elements += distance * stride(program, buffer, static_cast<size_t>(address.positions[shift.nest_dim]), rank);
  }
  for (const Address::Mapped& mapped : address.mapped)
    if (!mapped.map.outside)
      elements += reach_of(program, mapped, rank).first * stride(program, buffer, mapped.map.position, rank);
  return elements;
}

int64_t stride(const Program& program, const Address& address, size_t nest_dim, int64_t rank) {
  const Buffer& buffer = program.buffer(address.buffer);
  const int position = address.positions[nest_dim];
  int64_t elements = position < 0 ? 0 : stride(program, buffer, static_cast<size_t>(position), rank);
  for (const Address::Mapped& mapped : address.mapped)
    if (mapped.nest_dim == static_cast<int>(nest_dim) && !mapped.map.outside)
      elements += mapped.map.step * stride(program, buffer, mapped.map.position, rank);
  return elements;
}

std::optional<int64_t> Reach::element(int64_t index) const {
  const int64_t at = first + step * index;
  if (at < 0 || at % every != 0 || at / every >= extent) return {};
  return at / every;
}

Reach reach_of(const Program& program, const Address::Mapped& mapped, int64_t rank) {
  const IndexMap& map = mapped.map;
  const Range held = local_range(program, mapped.held, rank);
  const int64_t begin = mapped.nest_dim < 0 ? 0 : local_range(program, mapped.iterated, rank).begin;
  return {map.begin + map.step * begin - map.every * held.begin, mapped.nest_dim < 0 ? 0 : map.step, map.every,
          held.size()};
}

bool always_inside(const Program& program, const Address::Mapped& mapped) {
  if (mapped.map.every != 1) return false;
  for (int64_t rank = 0; rank < mesh_of(program).ranks(); ++rank) {
    const int64_t last = mapped.nest_dim < 0 ? 0 : local_extent(program, mapped.iterated, rank) - 1;
    const Reach reach = reach_of(program, mapped, rank);
    if (last >= 0 && (!reach.element(0) || !reach.element(last))) return false;
  }
  return true;
}

}  // namespace mesh
