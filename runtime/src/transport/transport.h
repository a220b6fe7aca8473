// transport.h: what carries collectives between ranks. Two kinds: ranks that share memory (threads of a process, or
// processes of a host over one arena; shared.h), and ranks that exchange messages (UCX; ucx.h); and for jobs of several
// hosts both (hosts.h). They run the same Calls and sum in the same order, so results agree bit for bit.
//
// This base keeps, for each group, the queue of calls that were started and not finished, each a Task. Calls of a group
// finish in the order of their start; the first `max_pending` of them are announced, so that slots for announcements
// can be reused without asking. A rank that waits for one call moves the calls of all groups along: others may need its
// part in them before they come to the call that it waits for.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "control/placement.h"
#include "meshrt/collectives.h"
#include "meshrt/rank.h"
#include "system/wait.h"
#include "transport/call.h"
#include "transport/task.h"

namespace meshrt {

/// True when sequence number `a` is not before `b`; they wrap around.
inline bool reached(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) >= 0; }
inline bool reached(uint64_t a, uint64_t b) { return static_cast<int64_t>(a - b) >= 0; }

/// The number of a group's last call that is finished: its results are there for who reads it.
using Finished = std::atomic<uint32_t>;

/// Met when all calls of the group before this one are finished.
class HeadOfQueue final : public Condition {
 public:
  explicit HeadOfQueue(const Finished& finished) : finished_(finished) {}
  void set(uint32_t sequence) { sequence_ = sequence; }
  bool met() override { return reached(finished_.load(std::memory_order_acquire), sequence_ - 1); }
  void look() override {}  // those who wait look at the first call of a group
  std::string late() override { return {}; }

 private:
  const Finished& finished_;
  uint32_t sequence_ = 0;
};

class ProgressThread;

class Transport {
 public:
  static constexpr uint32_t max_pending = 4;  ///< calls of one group that are announced and not finished

  Transport() = default;
  virtual ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Memory of this rank that peers of the same transport may read and write where it is shared; zeroed, 2 MiB aligned.
  /// Only what ranks use of it becomes memory. Collective, called once.
  virtual std::byte* allocate_arena(size_t bytes, const UsedMemory& used) = 0;
  /// Whether processes share the arenas: then none is memory of a process alone.
  virtual bool shares_arenas() const { return false; }
  /// The most memory that it takes for itself, beside that.
  virtual size_t own_bytes() const { return 0; }

  /// A call from its begin to its end. Calls are prepared (fingerprint.h); the group stays where it is.
  void run(const Group& group, Call& call);
  /// Never waits. A call that is moved here is kept; any other one stays where it is until it is finished.
  Ticket start(const Group& group, Call& call);
  Ticket start(const Group& group, Call&& call);
  void wait(Ticket ticket);
  /// Whether wait would return at once.
  bool finished(Ticket ticket) const;
  /// The call of a ticket that is not finished.
  const Call& call_of(Ticket ticket) const;
  /// Moves along what is started and not finished, as far as that needs no waiting.
  void advance();
  /// The same, unless it has just been done: poll() is called more often than that is worth.
  void poll();

  /// Where a member's arena lies for this rank; null: in other memory.
  virtual std::byte* arena_of(const Group&, [[maybe_unused]] int member) { return nullptr; }

  /// Seconds that a rank waits for another from now on.
  virtual void set_timeout(double seconds) = 0;

  /// Another thread moves calls along as well, from now on or no longer (null): then poll() does. The rank's thread
  /// calls it.
  void set_progress_thread(ProgressThread* thread);

  /// Which host each rank of the job runs on: told by the launcher before anything else.
  const Placement& placement() const { return placement_; }
  void set_placement(Placement placement) { placement_ = std::move(placement); }
  /// How many CPUs the ranks of this host may use together; a rank that is pinned sees fewer. Told likewise.
  int cpus() const { return cpus_; }
  void set_cpus(int cpus) { cpus_ = cpus; }

  /// Announces `call` to the group, then runs it: it returns when the results are in place and nobody reads this rank's
  /// buffers any more. `call` and `head` live as long as the task.
  virtual Task task_of(const Group& group, const Call& call, HeadOfQueue& head) = 0;
  /// The same without a task, where nothing else of this rank is under way; false: not for this call, nothing is done.
  virtual bool run_at_once(const Group&, const Call&) { return false; }
  virtual const WaitPolicy& policy(const Group& group) = 0;
  /// Not 0: another rank has failed.
  virtual const std::atomic<uint32_t>& aborted() const = 0;

 protected:
  /// Lets go of calls that are not finished. What has members that these use calls it first of all at its end.
  void drop_calls();

 private:
  struct Pending {
    explicit Pending(const Finished& finished) : head(finished) {}
    Call kept;  // while it is this queue's own
    Call* call = nullptr;
    HeadOfQueue head;
    Task task;
  };
  struct Queue {
    const Group* group = nullptr;
    uint32_t started = 0;  // sequence number of the last call; the first is 1
    Finished finished = 0;
    std::vector<std::unique_ptr<Pending>> calls;  // by sequence number modulo their number, a power of two
    Pending& at(uint32_t sequence) { return *calls[sequence & (calls.size() - 1)]; }
    bool idle() const { return started == finished; }
    uint32_t end_of_announced() const {
      const uint32_t last = finished;
      return last + std::min(started - last, max_pending) + 1;
    }
  };
  Queue& queue_of(const Group& group) {
    const auto place = static_cast<size_t>(group.id);
    return place < queues_.size() && queues_[place] ? *queues_[place] : add_queue(group);
  }
  Queue& add_queue(const Group& group);
  enum class Keep : bool { no, yes };
  /// Keep::yes: the call is moved here.
  Ticket start(const Group& group, Call& call, Keep keep);
  /// The same in a turn that has begun, of a call of several members.
  Ticket start(Queue& queue, Call& call, Keep keep);
  static void grow(Queue& queue);
  /// Without a task, if the call and what else is under way allow it; false: nothing is done.
  bool run_straight(const Group& group, Call& call);
  void wait(Queue& queue, Ticket ticket);
  /// From call `first` on.
  void advance(Queue& queue, uint32_t first, GivesWay gives_way = {});
  /// False: nothing is under way any more.
  bool advance_all(GivesWay gives_way = {});
  bool can_go_on() const;

  class Turn;
  friend class ProgressThread;

  Placement placement_;
  int cpus_ = 1;
  std::vector<std::unique_ptr<Queue>> queues_;  // by Group::id
  std::vector<Queue*> pending_;                 // that have calls under way
  ProgressThread* progress_thread_ = nullptr;
  std::chrono::steady_clock::time_point polled_;
};

}  // namespace meshrt
