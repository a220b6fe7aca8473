#include "transport/hosts.h"

#include <algorithm>
#include <bit>

#include "transport/ucx_call.h"

namespace meshrt {

// Another host may wait for what UCX holds back until this rank calls it again, while this rank waits for a neighbour:
// long waits of either kind move messages along.
HostsTransport::HostsTransport(const std::shared_ptr<Control>& control, std::shared_ptr<SharedMemory> memory,
                               const WaitPolicy& policy)
    : host_of_rank_(control->welcome().placement.host_of_rank),
      ucx_(control, policy),
      shared_(control->welcome().rank, std::move(memory), policy, [this] { ucx_.progress(); }) {}

void HostsTransport::set_timeout(double seconds) {
  ucx_.set_timeout(seconds);
  shared_.set_timeout(seconds);
}

std::unique_ptr<Levels> levels_of(const Group& group, const std::vector<int>& host_of_rank) {
  const auto host_of = [&](int index) { return host_of_rank[group.members[index]]; };
  int here = 1;
  while (here < group.size() && host_of(here) == host_of(0)) ++here;
  const int hosts = group.size() / here;
  if (!std::has_single_bit(static_cast<unsigned>(here)) || here == 1 || hosts == 1 || group.size() % here != 0)
    return nullptr;
  for (int index = 0; index < group.size(); ++index)
    for (int first = 0; first < group.size(); first += here)
      if ((host_of(index) == host_of(first)) != (index / here == first / here)) return nullptr;
  auto levels = std::make_unique<Levels>();
  const int host = group.index / here, place = group.index % here;
  for (int i = 0; i < here; ++i) levels->local.members.push_back(group.members[host * here + i]);
  for (int h = 0; h < hosts; ++h) levels->across.members.push_back(group.members[h * here + place]);
  levels->local.index = place;
  levels->across.index = host;
  // Numbers and keys that no group of the program has.
  levels->local.id = most_groups + 2 * group.id;
  levels->across.id = levels->local.id + 1;
  levels->local.key = (group.key ^ 0x6c6f63616c) & ~Channel::key_bit;
  levels->across.key = (group.key ^ 0x6163726f7373 ^ static_cast<uint64_t>(place + 1) << 48) & ~Channel::key_bit;
  return levels;
}

HostsTransport::Way& HostsTransport::way_of(const Group& group) {
  if (ways_.size() <= static_cast<size_t>(group.id)) ways_.resize(group.id + 1);
  Way& way = ways_[group.id];
  if (!way.transport) {
    const int host = host_of_rank_[group.members.front()];
    const bool together = std::ranges::all_of(group.members, [&](int member) { return host_of_rank_[member] == host; });
    if (together) way.transport = &shared_;
    else way.transport = &ucx_;
    if (!together) way.levels = levels_of(group, host_of_rank_);
  }
  return way;
}

namespace {

/// Whether sums of sums are the sum of all, bit by bit: a sum of 16-bit floats is rounded once, at its end.
bool adds_in_parts(const Call& call) {
  return call.reduce != Reduce::sum || (call.type != Type::bf16 && call.type != Type::f16);
}

}  // namespace

Task HostsTransport::task_of(const Group& group, const Call& call, HeadOfQueue& head) {
  Way& way = way_of(group);
  const int64_t bytes = call.count() * static_cast<int64_t>(size_of(call.type));  // the same for all members
  if (way.levels && bytes > UcxCall::small_payload && (!call.sums() || adds_in_parts(call))) {
    if (call.kind == Kind::all_reduce) return two_level_all_reduce(ucx_, shared_, *way.levels, group, call, head);
    if (call.kind == Kind::reduce_scatter || call.kind == Kind::all_gather)
      return two_level_movement(ucx_, shared_, *way.levels, group, call, head);
  }
  return way.transport->task_of(group, call, head);
}

}  // namespace meshrt
