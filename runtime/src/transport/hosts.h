// hosts.h: the transport of a job of several hosts. A group whose ranks run on one host shares its memory; every other
// group exchanges messages. Both sum in one tree over the group's order, so results do not depend on where ranks run.
#pragma once
#include "transport/shared.h"
#include "transport/ucx.h"

namespace meshrt {

class HostsTransport : public Transport {
 public:
  HostsTransport(const std::shared_ptr<Control>& control, std::shared_ptr<SharedMemory> memory,
                 const WaitPolicy& policy);
  ~HostsTransport() override { drop_calls(); }

  std::byte* allocate_arena(size_t bytes) override { return shared_.allocate_arena(bytes); }
  size_t own_bytes() const override { return ucx_.own_bytes(); }
  Task task_of(const Group& group, const Call& call, HeadOfQueue& head) override {
    return of(group).task_of(group, call, head);
  }
  bool run_at_once(const Group& group, const Call& call) override { return of(group).run_at_once(group, call); }
  const WaitPolicy& policy(const Group& group) override { return of(group).policy(group); }
  const std::atomic<uint32_t>& aborted() const override { return shared_.aborted(); }
  void set_timeout(double seconds) override;

 private:
  Transport& of(const Group& group);

  std::vector<int> host_of_rank_;
  std::vector<Transport*> by_group_;  // by Group::id
  UcxTransport ucx_;
  SharedTransport shared_;  // ends first: neighbours see it, then ranks of other hosts
};

}  // namespace meshrt
