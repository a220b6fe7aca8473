// plan.h: collectives that a program makes again and again with the same arguments, as in every step: each is checked,
// described and compared with nothing anew. The arguments are those of collectives.h; what they point to stays where it
// is as long as the plan, Blocks::begin too.
#pragma once
#include <memory>
#include <span>

#include "meshrt/collectives.h"
#include "meshrt/redistribute.h"

namespace meshrt {

/// Made without communication, by functions below; every rank makes the calls in the order in which it runs them.
class Plan {
 public:
  class Calls;  // src/collectives/plan.cpp

  Plan();
  explicit Plan(std::unique_ptr<Calls> calls);
  ~Plan();
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;

  /// From begin to end.
  void run();
  /// As the _start of collectives.h. It is finished before it is started again.
  Ticket start();
  /// Returns when what was started last is finished. Throws std::logic_error where it was never made.
  void wait();

  const Calls& calls() const { return *calls_; }

 private:
  std::unique_ptr<Calls> calls_;
};

Plan plan_all_reduce(Rank&, const Group&, Site, void* data, int64_t count, Type, Reduce);
Plan plan_all_reduce(Rank&, const Group&, Site, std::span<const Whole>, Type, Reduce);
Plan plan_reduce_scatter(Rank&, const Group&, Site, const void* whole, void* part, const Blocks&, Type, Reduce);
Plan plan_reduce_scatter(Rank&, const Group&, Site, std::span<const Scattered>, Type, Reduce);
Plan plan_all_gather(Rank&, const Group&, Site, const void* part, void* whole, const Blocks&, Type);
Plan plan_all_gather(Rank&, const Group&, Site, std::span<const Gathered>, Type);
Plan plan_all_to_all(Rank&, const Group&, Site, const void* from, void* to, const Exchange&, Type);
Plan plan_broadcast(Rank&, const Group&, Site, void* data, int64_t count, Type, int root);
Plan plan_broadcast(Rank&, const Group&, Site, const void* from, void* to, int64_t count, Type, int root);
Plan plan_reduce(Rank&, const Group&, Site, const void* from, void* to, int64_t count, Type, Reduce, int root);
Plan plan_permute(Rank&, const Group&, Site, const void* send, int64_t send_count, int to, void* receive,
                  int64_t receive_count, int from, Type);
Plan plan_exchange_margins(Rank&, const Group&, Site, void* data, std::span<const int64_t> begin, const Margins&, Type);
Plan plan_redistribute(Rank&, const Group&, Site, const void* from, void* to, const Redistribution&, Type);
Plan plan_barrier(Rank&, const Group&, Site);

}  // namespace meshrt
