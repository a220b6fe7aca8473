#include "meshrt/plan.h"

#include <utility>
#include <vector>

#include "collectives/plan_calls.h"

namespace meshrt {

Plan::Plan() = default;
Plan::Plan(std::unique_ptr<Calls> calls) : calls_(std::move(calls)) {}
Plan::~Plan() = default;
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
void Plan::run() { calls_->run(); }
Ticket Plan::start() { return calls_->start(); }
void Plan::wait() { calls_->wait(); }

namespace {

Plan plan(Rank& rank, const Group& group, std::vector<Call> calls, std::vector<int64_t> begin = {}) {
  return Plan(std::make_unique<Plan::Calls>(rank, group, std::move(calls), std::move(begin)));
}

Plan plan(Rank& rank, const Group& group, Call call, std::vector<int64_t> begin = {}) {
  return plan(rank, group, std::vector{std::move(call)}, std::move(begin));
}

/// As many calls as the values need.
template <class Value, class MakeCall>
Plan plan_all(Rank& rank, const Group& group, std::span<const Value> values, MakeCall make_call) {
  std::vector<Call> calls;
  each_call_of(values, [&](auto some) { calls.push_back(make_call(some)); });
  return plan(rank, group, std::move(calls));
}

}  // namespace

Plan plan_all_reduce(Rank& rank, const Group& group, Site site, void* data, int64_t count, Type type, Reduce reduce) {
  return plan(rank, group, all_reduce_call(group, site, data, count, type, reduce));
}

Plan plan_all_reduce(Rank& rank, const Group& group, Site site, std::span<const Whole> values, Type type,
                     Reduce reduce) {
  return plan_all(rank, group, values, [&](auto some) { return all_reduce_call(group, site, some, type, reduce); });
}

Plan plan_reduce_scatter(Rank& rank, const Group& group, Site site, const void* whole, void* part, const Blocks& blocks,
                         Type type, Reduce reduce) {
  return plan(rank, group, reduce_scatter_call(group, site, whole, part, blocks, type, reduce));
}

Plan plan_reduce_scatter(Rank& rank, const Group& group, Site site, std::span<const Scattered> values, Type type,
                         Reduce reduce) {
  return plan_all(rank, group, values, [&](auto some) { return reduce_scatter_call(group, site, some, type, reduce); });
}

Plan plan_all_gather(Rank& rank, const Group& group, Site site, const void* part, void* whole, const Blocks& blocks,
                     Type type) {
  return plan(rank, group, all_gather_call(group, site, part, whole, blocks, type));
}

Plan plan_all_gather(Rank& rank, const Group& group, Site site, std::span<const Gathered> values, Type type) {
  return plan_all(rank, group, values, [&](auto some) { return all_gather_call(group, site, some, type); });
}

Plan plan_all_to_all(Rank& rank, const Group& group, Site site, const void* from, void* to, const Exchange& exchange,
                     Type type) {
  return plan(rank, group, all_to_all_call(group, site, from, to, exchange, type));
}

Plan plan_broadcast(Rank& rank, const Group& group, Site site, void* data, int64_t count, Type type, int root) {
  return plan(rank, group, broadcast_call(group, site, data, count, type, root));
}

Plan plan_broadcast(Rank& rank, const Group& group, Site site, const void* from, void* to, int64_t count, Type type,
                    int root) {
  std::vector<int64_t> begin = all_at(group, root, count);
  Call call = all_gather_call(group, site, from, to, {1, begin, 1}, type);
  return plan(rank, group, std::move(call), std::move(begin));
}

Plan plan_reduce(Rank& rank, const Group& group, Site site, const void* from, void* to, int64_t count, Type type,
                 Reduce reduce, int root) {
  std::vector<int64_t> begin = all_at(group, root, count);
  Call call = reduce_scatter_call(group, site, from, to, {1, begin, 1}, type, reduce);
  return plan(rank, group, std::move(call), std::move(begin));
}

Plan plan_permute(Rank& rank, const Group& group, Site site, const void* send, int64_t send_count, int to,
                  void* receive, int64_t receive_count, int from, Type type) {
  return plan(rank, group, permute_call(group, site, send, send_count, to, receive, receive_count, from, type));
}

Plan plan_exchange_margins(Rank& rank, const Group& group, Site site, void* data, std::span<const int64_t> begin,
                           const Margins& margins, Type type) {
  return plan(rank, group, margins_calls(group, site, data, begin, margins, type));
}

Plan plan_redistribute(Rank& rank, const Group& group, Site site, const void* from, void* to,
                       const Redistribution& redistribution, Type type) {
  return plan(rank, group, redistribute_calls(group, site, from, to, redistribution, type));
}

Plan plan_barrier(Rank& rank, const Group& group, Site site) { return plan(rank, group, barrier_call(group, site)); }

}  // namespace meshrt
