// transport.h: what carries collectives between ranks. Two kinds: ranks that share memory (threads of a process, or
// processes of a host over one arena; shared.h), and ranks that exchange messages (UCX; ucx.h); and for jobs of several
// hosts both (hosts.h). They run the same Calls and sum in the same order, so results agree bit for bit.
//
// This base keeps, for each group, the queue of calls that were started and not finished. Calls of a group finish in
// the order of their start; at most `max_pending` are open, so that slots for announcements can be reused without
// asking.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "control/placement.h"
#include "meshrt/collectives.h"
#include "meshrt/rank.h"
#include "transport/call.h"

namespace meshrt {

class Transport {
 public:
  static constexpr uint32_t max_pending = 4;  ///< calls of one group between start and wait, the newest included

  virtual ~Transport() = default;

  /// Memory of this rank that peers of the same transport may read and write where it is shared; zeroed, 2 MiB aligned.
  /// Collective, called once.
  virtual std::byte* allocate_arena(size_t bytes) = 0;
  /// The most memory that it takes for itself, beside that.
  virtual size_t own_bytes() const { return 0; }

  Ticket start(const Group& group, const Call& call);
  void wait(Ticket ticket);

  /// Seconds that a rank waits for another from now on.
  virtual void set_timeout(double seconds) = 0;

  /// Which host each rank of the job runs on: told by the launcher before anything else.
  const Placement& placement() const { return placement_; }
  void set_placement(Placement placement) { placement_ = std::move(placement); }

  /// What start and wait call in their time. Announces `call` to the group; what it reads may not change until finish.
  virtual void post(const Group& group, const Call& call) = 0;
  /// Returns when the results are in place and nobody reads this rank's buffers any more.
  virtual void finish(const Group& group, const Call& call) = 0;

 private:
  struct Queue {
    const Group* group = nullptr;
    uint32_t started = 0, finished = 0;  // sequence numbers of the last call; the first is 1; they wrap around
    std::array<Call, max_pending> calls;
  };
  Queue& queue_of(const Group& group);
  void finish_oldest(Queue& queue);

  Placement placement_;
  std::vector<std::unique_ptr<Queue>> queues_;  // by Group::id
};

/// True when sequence number `a` is not before `b`; they wrap around.
inline bool reached(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) >= 0; }
inline bool reached(uint64_t a, uint64_t b) { return static_cast<int64_t>(a - b) >= 0; }

}  // namespace meshrt
