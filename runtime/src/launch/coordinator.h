// coordinator.h: carries what the ranks of a job exchange, and ends the job as one. The first rank that dies or reports
// a failure decides the message and the exit code; everybody else is asked to end, then killed. A signal to end is
// passed on first: ranks that train end in order, with a checkpoint.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/placement.h"
#include "launch/host.h"
#include "launch/signals.h"

namespace meshrt {

class Coordinator : public HostEvents {
 public:
  /// `signals` that ask the job to end; none: they are for others to heed.
  explicit Coordinator(Placement placement, const Signals* signals);
  ~Coordinator() override = default;
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// One for each host of the placement, in its order.
  void add(std::unique_ptr<Host> host) { hosts_.push_back(std::move(host)); }
  /// Until all ranks have ended. Returns the exit code of the job.
  int run();
  /// Whether a signal has.
  bool was_asked_to_end() const { return !askers_.empty(); }

  void entered(int rank, int pid) override;
  void received(int rank, const Message& message) override;
  void ended(int rank, int status) override;
  void asked_to_end(int host, int signal) override;
  void lost(int host, const std::string& why) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Member {
    int pid = 0;
    bool running = true, joined = false, finished = false;
    bool suspects = false;                   // it has reported the death of another rank
    std::optional<std::string> exchanged;    // its part of the exchange under way
    std::optional<Clock::time_point> heard;  // its last heartbeat
    std::string recorder;                    // path of its flight recorder
  };

  int patience() const;
  void listen_for_silence();
  /// `whose`: " to rank 1 (pid 4711)" where not all have got it.
  void end_at_once(int signal, const std::string& whose = {});
  void carry_exchange();
  /// Stops the others, then tells: `more` may read what ranks have left on a disk.
  void fail(const std::string& who, int code, const std::string& what, const std::function<std::string()>& more = {});
  void announce(const std::string& end);
  void suspect(int rank, int code, const std::string& what);
  void stop(int signal);
  void note_end_in_log() const;
  void signal_all(int number);
  bool any_running() const;
  std::string who(int rank) const;
  std::string last_words(int rank) const;
  std::string where_all_are() const;
  void miss_those_that_left();

  Placement placement_;
  const Signals* signals_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<Member> members_;
  int code_ = 0;
  std::string end_;                           // how the job has ended, if not in order
  std::optional<int> passed_on_;              // signal that the ranks have got instead of this process
  std::set<int> askers_;                      // hosts whose launchers have got one; this process is -1
  std::optional<Clock::time_point> stopped_;  // when the ranks were asked to end
  bool killed_ = false;
  std::chrono::milliseconds silence_;  // how long a rank may be silent; zero: for ever
  Clock::time_point listened_ = Clock::now();

  // A rank that cannot reach another one may say so before the other's death is seen here, which is the better message.
  struct Suspicion {
    int rank, code;
    std::string what;
    Clock::time_point since;
  };
  std::optional<Suspicion> suspicion_;
};

}  // namespace meshrt
