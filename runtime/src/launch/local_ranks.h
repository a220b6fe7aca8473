// local_ranks.h: ranks that this process starts, and that end with it.
#pragma once
#include "launch/own_ranks.h"
#include "launch/tagged_output.h"

namespace meshrt {

class LocalRanks : public OwnRanks {
 public:
  explicit LocalRanks(HostEvents& events) : OwnRanks(events) {}
  /// Nobody outlives it.
  ~LocalRanks() override;
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  void begin(const HostJob& job) override;
  void watch(std::vector<pollfd>& watched) const override;
  int patience() const override;
  void advance() override;
  void signal(int number) override;
  void clear() override;
  void flush() override;

 private:
  void start(const HostJob& job, int rank, std::vector<int> cpus);
  void reap() override;

  TaggedOutput output_;
};

}  // namespace meshrt
