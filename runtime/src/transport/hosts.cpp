#include "transport/hosts.h"

#include <algorithm>

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

Transport& HostsTransport::of(const Group& group) {
  if (by_group_.size() <= static_cast<size_t>(group.id)) by_group_.resize(group.id + 1);
  Transport*& transport = by_group_[group.id];
  if (!transport) {
    const int host = host_of_rank_[group.members.front()];
    const bool together = std::ranges::all_of(group.members, [&](int member) { return host_of_rank_[member] == host; });
    if (together) transport = &shared_;
    else transport = &ucx_;
  }
  return *transport;
}

}  // namespace meshrt
