#include "meshrt/rank.h"

#include <fmt/format.h>

#include <algorithm>

#include "meshrt/failure.h"
#include "transport/memory.h"
#include "transport/segment.h"
#include "transport/transport.h"

namespace meshrt {

Rank::Rank(int rank, int ranks, std::unique_ptr<Transport> transport)
    : rank_(rank), ranks_(ranks), transport_(std::move(transport)) {}

Rank::~Rank() = default;

void Rank::allocate(size_t arena, size_t own) {
  if (arena_ || own_memory_) throw Failure(Cause::usage, "a rank allocates its memory once");
  const Placement& placement = transport_->placement();
  const size_t here = placement.neighbours(rank_).size();
  const std::string who = placement.one_host() ? fmt::format("this job of {} ranks", here)
                                               : fmt::format("the part of {} ranks on this host", here);
  require_memory((round_to_huge(arena) + round_to_huge(own) + transport_->own_bytes()) * here, who.c_str());
  arena_ = transport_->allocate_arena(arena);
  arena_bytes_ = arena;
  own_memory_ = std::make_unique<Mapping>(own, -1);
  own_ = own_memory_->data();
  own_bytes_ = own;
  touch(own_, own_memory_->bytes());
}

const Group& Rank::group(std::span<const Axis> axes) {
  for (const auto& group : groups_)
    if (std::ranges::equal(group->axes, axes)) return *group;
  if (groups_.size() == max_groups)
    throw Failure(Cause::usage, fmt::format("a job can have {} groups of ranks; this one asks for more", max_groups));

  auto group = std::make_unique<Group>();
  group->id = static_cast<int>(groups_.size());
  group->axes.assign(axes.begin(), axes.end());
  int base = rank_, size = 1;
  for (const Axis& axis : axes) {
    if (axis.size < 1 || axis.stride < 1)
      throw Failure(Cause::usage, fmt::format("a mesh axis of size {} and stride {}", axis.size, axis.stride));
    const int coordinate = rank_ / axis.stride % axis.size;
    base -= coordinate * axis.stride;
    group->index = group->index * axis.size + coordinate;
    size *= axis.size;
  }
  for (int index = 0; index < size; ++index) {
    int member = base, rest = index;
    for (size_t a = axes.size(); a-- > 0; rest /= axes[a].size) member += rest % axes[a].size * axes[a].stride;
    if (member >= ranks_)
      throw Failure(Cause::usage,
                    fmt::format("the mesh has a rank {}, but the job only {} ranks: start it with as many ranks as "
                                "the mesh has places",
                                member, ranks_));
    group->members.push_back(member);
  }
  return *groups_.emplace_back(std::move(group));
}

}  // namespace meshrt
