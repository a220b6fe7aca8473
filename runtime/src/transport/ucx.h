// ucx.h: the transport of ranks that exchange messages over UCX. Every call begins with an announcement to each member
// (32 bytes of fingerprint, the value's name, small contributions themselves), which is compared before anything else
// is received; pieces follow in rounds.
#pragma once
#include <memory>
#include <vector>

#include "transport/buffer_pool.h"
#include "transport/memory.h"
#include "transport/transport.h"
#include "transport/ucx_worker.h"

namespace meshrt {

class UcxTransport : public Transport {
 public:
  UcxTransport(std::shared_ptr<Control> control, const WaitPolicy& policy);
  ~UcxTransport() override { drop_calls(); }

  std::byte* allocate_arena(size_t bytes, const UsedMemory& used) override;
  Task task_of(const Group& group, const Call& call, HeadOfQueue& head) override;
  const WaitPolicy& policy(const Group&) override { return policy_; }
  const std::atomic<uint32_t>& aborted() const override;
  void set_timeout(double seconds) override;
  size_t own_bytes() const override;
  /// Moves messages along that nobody waits for, and takes in what the launcher has to say.
  void progress();

 private:
  friend class UcxCall;

  /// Throws Failure unless messages of this group and of those before it can be told apart.
  void require_own_tags(const Group& group);

  BufferPool buffers_;  // outlives what may still write to them
  UcxWorker worker_;
  WaitPolicy policy_;
  Mapping arena_;
  std::vector<const Group*> groups_;  // by Group::id
};

}  // namespace meshrt
