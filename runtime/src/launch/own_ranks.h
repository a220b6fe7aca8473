// own_ranks.h: the ranks of this host: processes that share memory, each with a socket to this one. They are started by
// this process (local_ranks.h) or come by themselves (adopted_ranks.h).
#pragma once
#include <sys/types.h>

#include <chrono>

#include "control/welcome.h"
#include "launch/host.h"
#include "launch/outbox.h"
#include "system/descriptor.h"

namespace meshrt {

class OwnRanks : public Host {
 public:
  explicit OwnRanks(HostEvents& events) : events_(events) {}

  /// Starts or welcomes the ranks. Throws Failure (Cause::environment).
  virtual void begin(const HostJob& job) = 0;
  virtual bool any_running() const;

  bool is_here() const override { return true; }
  void watch(std::vector<pollfd>& watched) const override;
  void advance() override;
  void send(int rank, const Message& message) override;
  void flush() override {}

 protected:
  struct Process {
    int rank = 0;
    pid_t pid = 0;  ///< 0: not known here
    Descriptor control;
    bool running = true;
    Outbox outbox;         ///< what it has not taken yet
    std::string recorder;  ///< path of its flight recorder
  };

  /// Tells a rank what it is and how many CPUs the ranks of this host have together, and hands it the memory that it
  /// shares with the others.
  class Memory {
   public:
    explicit Memory(const HostJob& job);
    void welcome(const HostJob& job, const Process& process, int cpus) const;

   private:
    Descriptor segment_, arena_;
  };

  static void take_recorder(Process&, const Message&);
  void read_control(Process& process);
  void write_control(Process& process);
  /// What ranks have left undone of their recorders. When all are killed or gone: a disk that hangs must not keep ranks
  /// alive.
  void finish_flights();
  /// Tells of processes that have ended, after their last words.
  virtual void reap() = 0;

  HostEvents& events_;
  std::vector<Process> processes_;

 private:
  static void hear_out(Process& process, std::chrono::steady_clock::time_point limit);
};

}  // namespace meshrt
