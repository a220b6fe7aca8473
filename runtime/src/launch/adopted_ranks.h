// adopted_ranks.h: ranks that another launcher (mpirun, srun, torchrun) has started, and that come to this process by a
// socket without a path whose name they all know. Sockets of other users are turned away.
#pragma once
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "launch/own_ranks.h"

namespace meshrt {

class AdoptedRanks : public OwnRanks {
 public:
  /// `listener`: see claim_name. Ranks know `word`.
  AdoptedRanks(Descriptor listener, std::string word, HostEvents& events)
      : OwnRanks(events), listener_(std::move(listener)), word_(std::move(word)) {}
  ~AdoptedRanks() override;
  AdoptedRanks(const AdoptedRanks&) = delete;
  AdoptedRanks& operator=(const AdoptedRanks&) = delete;

  /// All have come: welcomes them.
  void begin(const HostJob& job) override;
  void watch(std::vector<pollfd>& watched) const override;
  int patience() const override { return -1; }
  void advance() override;
  void signal(int number) override;
  void clear() override;

 private:
  struct Caller {
    Descriptor socket, process;
    pid_t pid;
  };
  void answer_calls();
  void take_in(Caller& caller, const Message& entered);
  /// That the ranks may use together.
  int cpus() const;
  void reap() override;

  Descriptor listener_;
  std::string word_;
  std::chrono::steady_clock::time_point rests_until_{};
  std::set<int> cpus_;                  // in the masks of ranks that have come
  std::vector<Caller> callers_;         // that have not said which rank they are
  std::vector<Descriptor> identities_;  // of processes_, in their order: a number can be another process's tomorrow
};

/// Listens under a name that is free on this host; none (-1) when another process of the job has it.
Descriptor claim_name(const std::string& name);
/// Connects to the process that has it and tells it the rank, its CPUs, and the word by which it knows this job's.
/// Throws Failure (Cause::environment) after `limit`.
Descriptor call_name(const std::string& name, int rank, const std::string& word, std::chrono::milliseconds limit);

}  // namespace meshrt
