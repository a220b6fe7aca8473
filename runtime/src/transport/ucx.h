// ucx.h: the transport of ranks that exchange messages over UCX. Every call begins with an announcement to each member
// (32 bytes of fingerprint, the value's name, small contributions themselves), which is compared before anything else
// is received; pieces follow in rounds.
#pragma once
#include <memory>
#include <vector>

#include "transport/fingerprint.h"
#include "transport/memory.h"
#include "transport/transport.h"
#include "transport/ucx_worker.h"

namespace meshrt {

class UcxTransport : public Transport {
 public:
  UcxTransport(std::shared_ptr<Control> control, const WaitPolicy& policy);

  std::byte* allocate_arena(size_t bytes) override;
  void post(const Group& group, const Call& call) override;
  void finish(const Group& group, const Call& call) override;
  void set_timeout(double seconds) override;
  size_t own_bytes() const override;
  /// Moves messages along that nobody waits for, and takes in what the launcher has to say.
  void progress();

 private:
  friend class UcxCall;

  /// What a member sends first; contributions of up to `small_payload` bytes follow it in the same message.
  struct Announcement {
    Fingerprint print;
    ValueName value;
  };
  /// The announcements of one call under way: own and, by member, theirs.
  struct Round {
    UcxWorker::Batch sent;
    std::vector<UcxWorker::Batch> received;
    std::vector<std::byte> own, theirs;
  };

  /// Pieces packed to be sent, or received to be used, of the call under way.
  struct Room {
    std::unique_ptr<std::byte[]> data;
    int64_t bytes = 0;
  };

  UcxWorker worker_;
  WaitPolicy policy_;
  Mapping arena_;
  std::vector<std::vector<Round>> rounds_;  // by group, by sequence number modulo max_pending
  Room outgoing_, incoming_;
};

}  // namespace meshrt
