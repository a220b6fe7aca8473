// plan_calls.h: what a plan holds: its calls, each prepared once.
#pragma once
#include <stdexcept>
#include <utility>
#include <vector>

#include "collectives/make_call.h"
#include "meshrt/plan.h"
#include "system/switched_off.h"
#include "transport/fingerprint.h"

namespace meshrt {

class Plan::Calls {
 public:
  /// `begin` is what the calls point to that is not the program's.
  Calls(Rank& rank, const Group& group, std::vector<Call> calls, std::vector<int64_t> begin)
      : rank_(rank), group_(group), calls_(std::move(calls)), begin_(std::move(begin)) {
    for (Call& call : calls_) prepare(group_, call);
  }
  void run() {
    was_made_ = true;
    for (Call& call : calls_) run_prepared(rank_, group_, call);
  }
  Ticket start() {
    was_made_ = true;
    for (Call& call : calls_) last_ = start_prepared(rank_, group_, call);
    if (!overlaps()) wait();
    return last_;
  }
  void wait() {
    if (!was_made_) throw std::logic_error("a collective is waited for that was never started");
    meshrt::wait(rank_, last_);
  }

  Rank& rank() const { return rank_; }
  const Group& group() const { return group_; }
  std::span<const Call> all() const { return calls_; }

 private:
  /// Not with MESHRT_NO=overlap, which shows what it brings.
  static bool overlaps() {
    static const bool without = switched_off("overlap");
    return !without;
  }

  Rank& rank_;
  const Group& group_;
  std::vector<Call> calls_;
  std::vector<int64_t> begin_;
  Ticket last_;
  bool was_made_ = false;
};

}  // namespace meshrt
