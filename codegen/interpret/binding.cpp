#include "codegen/interpret/binding.h"

#include <algorithm>

#include "codegen/graph/builder.h"
#include "codegen/program/branches.h"

namespace mesh {

Binding::Binding(const Program& program, meshrt::Rank& rank)
    : program(program), rank(rank), turns(program.loops, 0), loop_extent(program.loops, 1) {}

std::byte* Binding::memory(BufferId id) const {
  const Buffer& held = program.buffer(storage(program, id));
  if (held.offset < 0) internal_error("buffer " + held.name + " has no offset: the memory plan left it out");
  const bool arena = held.space == Space::arena;
  const auto end = static_cast<size_t>(held.offset + local_elements(program, held, rank.rank()) *
                                                         static_cast<int64_t>(meshrt::size_of(held.type)));
  if (end > (arena ? rank.arena_bytes() : rank.own_bytes()))
    internal_error("buffer " + held.name + " ends at byte " + std::to_string(end) + ", past the memory of its space");
  return (arena ? rank.arena() : rank.own()) + held.offset;
}

Pointer::Pointer(const Binding& binding, const Access& access) : start_(binding.memory(access.buffer)) {
  const Buffer& buffer = binding.buffer(access);
  if (access.turns.size() > buffer.dims.size())
    internal_error("buffer " + buffer.name + " is indexed by more loops than it has dims");
  for (const FixedDim& fixed : fixed_dims(access)) {
    const TurnIndex& turn = fixed.turn;
    const int64_t bytes = stride(binding.program, buffer, fixed.position, binding.rank.rank()) *
                          static_cast<int64_t>(meshrt::size_of(buffer.type));
    const LocalDim& local = buffer.dims[fixed.position];
    if (turn.loop && !local.placement.axes.empty()) {
      std::vector<int64_t> offsets;
      for (int64_t t = 0; t < binding.program.sharded.graph.dim(local.dim).size; ++t)
        offsets.push_back(bytes * slot(binding.program, buffer, fixed, t, binding.rank.rank()));
      owned_.emplace_back(turn.loop, std::make_shared<const std::vector<int64_t>>(std::move(offsets)));
    } else if (turn.loop) turns_.emplace_back(turn, bytes);
    else start_ += turn.slot(0) * bytes;
  }
}

Window window(const Binding& binding, const Access& access, std::span<const LocalDim> nest) {
  const Buffer& buffer = binding.buffer(access);
  const auto bytes = static_cast<int64_t>(meshrt::size_of(buffer.type));
  const int64_t rank = binding.rank.rank();
  Window result{access, Pointer(binding, access), {}, {}, buffer.type};
  const Address address = address_of(binding.program, access, nest);
  for (const Address::Shift& shift : address.shifts) {
    const Range iterated = binding.range(shift.iterated), held = binding.range(shift.held);
    if (iterated.size() > 0 && (iterated.begin < held.begin || iterated.end > held.end))
      internal_error("a step runs over [" + std::to_string(iterated.begin) + ", " + std::to_string(iterated.end) +
                     ") of dim " + binding.name(shift.held.dim) + ", but rank " + std::to_string(rank) +
                     " holds only [" + std::to_string(held.begin) + ", " + std::to_string(held.end) + ") of it in " +
                     buffer.name);
  }
  for (const Address::Mapped& mapped : address.mapped) {
    if (mapped.map.outside)
      result.guards.push_back({mapped.nest_dim, reach_of(binding.program, mapped, rank),
                               stride(binding.program, buffer, mapped.map.position, rank) * bytes,
                               *mapped.map.outside});
    else if (!always_inside(binding.program, mapped))
      internal_error("a step leads to elements of " + buffer.name + " that rank " + std::to_string(rank) +
                     " does not hold");
  }
  Address here = address;
  here.fixed.clear();  // those the pointer has
  result.pointer.move(base(binding.program, here, {}, rank) * bytes);
  for (size_t i = 0; i < nest.size(); ++i) result.strides.push_back(stride(binding.program, address, i, rank) * bytes);
  return result;
}

size_t position_of(const Binding& binding, const Access& access, DimId dim) {
  const std::span<const LocalDim> dims = dims_of(binding.program, access);
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i].dim == dim) return i;
  internal_error("buffer " + binding.buffer(access).name + " has no dim " + binding.name(dim));
}

std::vector<meshrt::Axis> axes_of(const Binding& binding, const std::vector<AxisId>& axes) {
  std::vector<meshrt::Axis> of;
  of.reserve(axes.size());
  for (const AxisId axis : axes) {
    const MeshAxis& known = binding.mesh().axes[axis];
    of.push_back({static_cast<int>(known.size), static_cast<int>(known.stride)});
  }
  return of;
}

const meshrt::Group& group_of(Binding& binding, const std::vector<AxisId>& axes, const Where* some) {
  if (!some) return binding.rank.group(axes_of(binding, axes));
  return binding.rank.group_or_alone(axes_of(binding, axes), indices_at(binding.mesh(), axes, *some));
}

std::function<int64_t()> coordinate_of(const Binding& binding, const Where& where) {
  if (!where.owner) return [coordinate = where.coordinates.front()] { return coordinate; };
  const int64_t turns = turns_of(binding.program, where);
  std::vector<int64_t> coordinates;
  for (int64_t turn = 0; turn < turns; ++turn) coordinates.push_back(coordinate_at(binding.mesh(), where, turns, turn));
  return [&turn = binding.turns[binding.loops.at(where.owner.dim).index], coordinates] {
    return coordinates[static_cast<size_t>(turn)];
  };
}

}  // namespace mesh
