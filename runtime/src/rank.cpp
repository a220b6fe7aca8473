#include "meshrt/rank.h"

#include <fmt/format.h>

#include <algorithm>

#include "meshrt/failure.h"
#include "transport/memory.h"
#include "transport/transport.h"

namespace meshrt {

Rank::Rank(int rank, int ranks, std::unique_ptr<Transport> transport)
    : rank_(rank), ranks_(ranks), transport_(std::move(transport)) {}

Rank::~Rank() = default;

void Rank::allocate(size_t arena, size_t own) {
  allocate(arena, own, [&](int) { return RankMemory{{{0, arena}}, {{0, own}}}; });
}

void Rank::allocate(size_t arena, size_t own, const UsedMemory& used) {
  if (arena_ || own_memory_) throw Failure(Cause::usage, "a rank allocates its memory once");
  const Placement& placement = transport_->placement();
  const std::vector<int> here = placement.neighbours(rank_);
  const std::string who = placement.one_host() ? fmt::format("this job of {} ranks", here.size())
                                               : fmt::format("the part of {} ranks on this host", here.size());
  size_t needed = transport_->own_bytes() * here.size();
  for (const int neighbour : here) {
    const RankMemory memory = used(neighbour);
    needed += huge_bytes(memory.arena) + huge_bytes(memory.own);
  }
  require_memory(needed, who.c_str());
  arena_ = transport_->allocate_arena(arena, used);
  arena_bytes_ = arena;
  own_memory_ = std::make_unique<Mapping>(own, -1);
  own_ = own_memory_->data();
  own_bytes_ = own;
  touch_ranges(own_, used(rank_).own);
}

namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccd;
  return hash ^ hash >> 32;
}

// What members agree on. The axes count as well: groups of the same ranks over other axes are called by themselves.
uint64_t key_of(const Group& group) {
  uint64_t key = 1;
  for (const Axis& axis : group.axes) key = mix(mix(key, axis.size), axis.stride);
  for (const int member : group.members) key = mix(key, member);
  key &= ~Channel::key_bit;
  return key == 0 ? 1 : key;
}

// Of a channel the lower 30 bits, which messages between hosts have (ucx_call.h), say which it is, so that none are
// taken for another's by chance: between two ranks it goes up or down, and has a number and a slot.
uint64_t key_of_channel(const Group& group) {
  const int from = group.members[Channel::sender], to = group.members[Channel::receiver];
  const uint64_t ends = mix(mix(2, from), to) >> 30 << 30;
  return ends | Channel::key_bit | static_cast<uint64_t>(from < to) << 28 | static_cast<uint64_t>(group.channel) << 16 |
         static_cast<uint64_t>(group.slot);
}

}  // namespace

const Group& Rank::add_group(Group group) {
  for (const auto& known : groups_)
    if (known->key == group.key) return *known;
  group.id = static_cast<int>(groups_.size());
  return *groups_.emplace_back(std::make_unique<Group>(std::move(group)));
}

const Group& Rank::group(std::span<const Axis> axes, std::span<const int> coordinates) {
  Group group;
  group.axes.assign(axes.begin(), axes.end());
  int base = rank_, size = 1, own = 0;
  for (const Axis& axis : axes) {
    if (axis.size < 1 || axis.stride < 1)
      throw Failure(Cause::usage, fmt::format("a mesh axis of size {} and stride {}", axis.size, axis.stride));
    const int coordinate = rank_ / axis.stride % axis.size;
    base -= coordinate * axis.stride;
    own = own * axis.size + coordinate;
    size *= axis.size;
  }
  const auto rank_at = [&](int index) {
    int member = base;
    for (size_t a = axes.size(); a-- > 0; index /= axes[a].size) member += index % axes[a].size * axes[a].stride;
    if (member >= ranks_)
      throw Failure(Cause::usage,
                    fmt::format("the mesh has a rank {}, but the job only {} ranks: start it with as many ranks as "
                                "the mesh has places",
                                member, ranks_));
    return member;
  };
  for (const int coordinate : coordinates) {
    if (coordinate < 0 || coordinate >= size)
      throw Failure(Cause::usage,
                    fmt::format("a group has the coordinate {} over axes of {} places", coordinate, size));
    if (std::ranges::find(group.members, rank_at(coordinate)) != group.members.end())
      throw Failure(Cause::usage, fmt::format("a group has the coordinate {} twice", coordinate));
    group.members.push_back(rank_at(coordinate));
  }
  for (int index = 0; coordinates.empty() && index < size; ++index) group.members.push_back(rank_at(index));
  const auto place = std::ranges::find(group.members, rank_);
  if (place == group.members.end())
    throw Failure(Cause::usage, fmt::format("rank {}, at coordinate {}, asks for a group of the ranks {}, to which it "
                                            "does not belong",
                                            rank_, own, fmt::join(group.members, " ")));
  group.index = static_cast<int>(place - group.members.begin());
  group.key = key_of(group);
  return add_group(std::move(group));
}

const Group& Rank::group_or_alone(std::span<const Axis> axes, std::span<const int> coordinates) {
  int own = 0;
  for (const Axis& axis : axes) own = own * axis.size + rank_ / axis.stride % axis.size;
  return std::ranges::find(coordinates, own) == coordinates.end() ? group({}) : group(axes, coordinates);
}

Channel Rank::channel(int from, int to, int number, int slot) {
  if (from == to || std::min(from, to) < 0 || std::max(from, to) >= ranks_)
    throw Failure(Cause::usage,
                  fmt::format("a channel from rank {} to rank {} in a job of {} ranks", from, to, ranks_));
  if (rank_ != from && rank_ != to)
    throw Failure(Cause::usage, fmt::format("rank {} asks for a channel from rank {} to rank {}", rank_, from, to));
  if (number < 0 || number >= Channel::most_numbers || slot < 0 || slot >= Channel::most_slots)
    throw Failure(Cause::usage, fmt::format("slot {} of channel {}: there are {} slots of {} channels", slot, number,
                                            Channel::most_slots, Channel::most_numbers));
  Group group;
  group.members = {from, to};
  group.index = rank_ == from ? Channel::sender : Channel::receiver;
  group.channel = number;
  group.slot = slot;
  group.key = key_of_channel(group);
  return {&add_group(std::move(group))};
}

}  // namespace meshrt
