// hosts.h: the transport of a job of several hosts. A group whose ranks run on one host shares its memory; every other
// group exchanges messages. Long all-reduces, reduce-scatters and all-gathers of a group that has several ranks on each
// host go over two levels, where the tree of sums allows it: within the hosts by their memory, and between hosts what
// one rank a host would send. All sum in one tree over the group's order, so results do not depend on where ranks run.
#pragma once
#include <memory>
#include <vector>

#include "transport/shared.h"
#include "transport/ucx.h"

namespace meshrt {

/// The two levels of a group whose hosts hold as many members each, side by side in its order.
struct Levels {
  Group local;   ///< the members of this host
  Group across;  ///< those that have this one's index in `local`, of all hosts
  /// Numbers of the last calls.
  uint32_t local_calls = 0, across_calls = 0;
};

/// The levels of a group by the hosts of all ranks; null: it has not as many members on each host, side by side, or not
/// a power of two of them: then what a host sums is no part of the tree.
std::unique_ptr<Levels> levels_of(const Group& group, const std::vector<int>& host_of_rank);

class HostsTransport : public Transport {
 public:
  HostsTransport(const std::shared_ptr<Control>& control, std::shared_ptr<SharedMemory> memory,
                 const WaitPolicy& policy);
  ~HostsTransport() override { drop_calls(); }

  std::byte* allocate_arena(size_t bytes, const UsedMemory& used) override {
    return shared_.allocate_arena(bytes, used);
  }
  bool shares_arenas() const override { return shared_.shares_arenas(); }
  std::byte* arena_of(const Group& group, int member) override {
    return way_of(group).transport->arena_of(group, member);
  }
  size_t own_bytes() const override { return ucx_.own_bytes(); }
  Task task_of(const Group& group, const Call& call, HeadOfQueue& head) override;
  bool run_at_once(const Group& group, const Call& call) override {
    return way_of(group).transport->run_at_once(group, call);
  }
  const WaitPolicy& policy(const Group& group) override { return way_of(group).transport->policy(group); }
  const std::atomic<uint32_t>& aborted() const override { return shared_.aborted(); }
  void set_timeout(double seconds) override;

 private:
  struct Way {
    Transport* transport = nullptr;
    std::unique_ptr<Levels> levels;  // may be null
  };
  Way& way_of(const Group& group);

  std::vector<int> host_of_rank_;
  std::vector<Way> ways_;  // by Group::id
  UcxTransport ucx_;
  SharedTransport shared_;  // ends first: neighbours see it, then ranks of other hosts
};

// Long calls over two levels: an all-reduce; a reduce-scatter or an all-gather.
Task two_level_all_reduce(UcxTransport& between, SharedTransport& within, Levels& levels, const Group& group,
                          const Call& call, HeadOfQueue& head);
Task two_level_movement(UcxTransport& between, SharedTransport& within, Levels& levels, const Group& group,
                        const Call& call, HeadOfQueue& head);

}  // namespace meshrt
