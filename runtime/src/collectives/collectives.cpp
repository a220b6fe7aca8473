// The public collectives: each describes its call and hands it to the transport, which finishes it at once or at wait.
#include "meshrt/collectives.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/injected_faults.h"
#include "collectives/make_call.h"
#include "meshrt/profile.h"
#include "report/flight_recorder.h"
#include "transport/fingerprint.h"
#include "transport/transport.h"

namespace meshrt {

namespace {

TraceLabel label_of(const Call& call, const char* action = "") {
  std::string name = fmt::format("{}{} {}", action, name_of(call), call.site.value);
  if (call.message.micro_batch >= 0) name += fmt::format(" {}", call.message.micro_batch);
  return {std::move(name), call.site.id, call.count() * static_cast<int64_t>(size_of(call.type))};
}

/// A call of the program begins: people are told.
void note(Call& call, bool started) {
  if (StepProfile* const profile = thread_profile()) profile->sent += sent_bytes(call);
  FlightRecorder* const recorder = FlightRecorder::current();
  call.noted = recorder ? recorder->begin(call, started) : nullptr;
}

/// What of a call a trace says when it is over.
TraceLabel traced(const Call& call, const char* action = "") {
  const StepProfile* const profile = thread_profile();
  return profile && profile->events ? label_of(call, action) : TraceLabel{};
}

/// Starts a call that is kept, or one that stays where it is.
template <class Kept>
Ticket start_noted(Rank& rank, const Group& group, Kept&& call) {
  if (skips_call(rank.rank())) return {};
  const Timed timed(&StepProfile::calls, [label = traced(call, "start ")] { return label; });
  note(call, true);
  return rank.transport().start(group, std::forward<Kept>(call));
}

void run(Rank& rank, const Group& group, Call call) {
  prepare(group, call);
  run_prepared(rank, group, call);
}

}  // namespace

void Call::end() const { FlightRecorder::end(noted); }

void run_prepared(Rank& rank, const Group& group, Call& call) {
  if (skips_call(rank.rank())) return;
  const Timed timed(&StepProfile::calls, [&] { return label_of(call); });
  note(call, false);
  rank.transport().run(group, call);
}

Ticket start_prepared(Rank& rank, const Group& group, Call& call) { return start_noted(rank, group, call); }

Ticket start(Rank& rank, const Group& group, Call call) {
  prepare(group, call);
  return start_noted(rank, group, std::move(call));
}

void wait(Rank& rank, Ticket ticket) {
  Transport& transport = rank.transport();
  if (transport.finished(ticket)) return;
  const Timed timed(&StepProfile::calls, [label = traced(transport.call_of(ticket), "wait ")] { return label; });
  FlightRecorder* const recorder = FlightRecorder::current();
  if (recorder) recorder->await(transport.call_of(ticket).noted);
  transport.wait(ticket);
  if (recorder) recorder->await(nullptr);
}

bool finished(Rank& rank, Ticket ticket) {
  rank.transport().advance();
  return rank.transport().finished(ticket);
}

Ticket all_reduce_start(Rank& rank, const Group& group, Site site, void* data, int64_t count, Type type,
                        Reduce reduce) {
  return start(rank, group, all_reduce_call(group, site, data, count, type, reduce));
}

Ticket reduce_scatter_start(Rank& rank, const Group& group, Site site, const void* whole, void* part,
                            const Blocks& blocks, Type type, Reduce reduce) {
  return start(rank, group, reduce_scatter_call(group, site, whole, part, blocks, type, reduce));
}

Ticket all_gather_start(Rank& rank, const Group& group, Site site, const void* part, void* whole, const Blocks& blocks,
                        Type type) {
  return start(rank, group, all_gather_call(group, site, part, whole, blocks, type));
}

Ticket all_reduce_start(Rank& rank, const Group& group, Site site, std::span<const Whole> values, Type type,
                        Reduce reduce) {
  Ticket last;
  each_call_of(values, [&](auto some) { last = start(rank, group, all_reduce_call(group, site, some, type, reduce)); });
  return last;
}

Ticket reduce_scatter_start(Rank& rank, const Group& group, Site site, std::span<const Scattered> values, Type type,
                            Reduce reduce) {
  Ticket last;
  each_call_of(values,
               [&](auto some) { last = start(rank, group, reduce_scatter_call(group, site, some, type, reduce)); });
  return last;
}

Ticket all_gather_start(Rank& rank, const Group& group, Site site, std::span<const Gathered> values, Type type) {
  Ticket last;
  each_call_of(values, [&](auto some) { last = start(rank, group, all_gather_call(group, site, some, type)); });
  return last;
}

Ticket all_to_all_start(Rank& rank, const Group& group, Site site, const void* from, void* to, const Exchange& exchange,
                        Type type) {
  return start(rank, group, all_to_all_call(group, site, from, to, exchange, type));
}

Ticket broadcast_start(Rank& rank, const Group& group, Site site, void* data, int64_t count, Type type, int root) {
  return start(rank, group, broadcast_call(group, site, data, count, type, root));
}

Ticket barrier_start(Rank& rank, const Group& group, Site site) {
  return start(rank, group, barrier_call(group, site));
}

void all_reduce(Rank& rank, const Group& group, Site site, void* data, int64_t count, Type type, Reduce reduce) {
  run(rank, group, all_reduce_call(group, site, data, count, type, reduce));
}

void reduce_scatter(Rank& rank, const Group& group, Site site, const void* whole, void* part, const Blocks& blocks,
                    Type type, Reduce reduce) {
  run(rank, group, reduce_scatter_call(group, site, whole, part, blocks, type, reduce));
}

void all_gather(Rank& rank, const Group& group, Site site, const void* part, void* whole, const Blocks& blocks,
                Type type) {
  run(rank, group, all_gather_call(group, site, part, whole, blocks, type));
}

void all_reduce(Rank& rank, const Group& group, Site site, std::span<const Whole> values, Type type, Reduce reduce) {
  each_call_of(values, [&](auto some) { run(rank, group, all_reduce_call(group, site, some, type, reduce)); });
}

void reduce_scatter(Rank& rank, const Group& group, Site site, std::span<const Scattered> values, Type type,
                    Reduce reduce) {
  each_call_of(values, [&](auto some) { run(rank, group, reduce_scatter_call(group, site, some, type, reduce)); });
}

void all_gather(Rank& rank, const Group& group, Site site, std::span<const Gathered> values, Type type) {
  each_call_of(values, [&](auto some) { run(rank, group, all_gather_call(group, site, some, type)); });
}

void all_to_all(Rank& rank, const Group& group, Site site, const void* from, void* to, const Exchange& exchange,
                Type type) {
  run(rank, group, all_to_all_call(group, site, from, to, exchange, type));
}

void broadcast(Rank& rank, const Group& group, Site site, void* data, int64_t count, Type type, int root) {
  run(rank, group, broadcast_call(group, site, data, count, type, root));
}

void broadcast(Rank& rank, const Group& group, Site site, const void* from, void* to, int64_t count, Type type,
               int root) {
  const std::vector<int64_t> begin = all_at(group, root, count);
  all_gather(rank, group, site, from, to, {1, begin, 1}, type);
}

void reduce(Rank& rank, const Group& group, Site site, const void* from, void* to, int64_t count, Type type,
            Reduce reduce, int root) {
  const std::vector<int64_t> begin = all_at(group, root, count);
  reduce_scatter(rank, group, site, from, to, {1, begin, 1}, type, reduce);
}

Ticket permute_start(Rank& rank, const Group& group, Site site, const void* send, int64_t send_count, int to,
                     void* receive, int64_t receive_count, int from, Type type) {
  return start(rank, group, permute_call(group, site, send, send_count, to, receive, receive_count, from, type));
}

void permute(Rank& rank, const Group& group, Site site, const void* send, int64_t send_count, int to, void* receive,
             int64_t receive_count, int from, Type type) {
  run(rank, group, permute_call(group, site, send, send_count, to, receive, receive_count, from, type));
}

Partners partners(const Group& group, std::span<const Axis> numbering) {
  const auto index = [&](int member, std::span<const Axis> axes) {
    int result = 0;
    for (const Axis& axis : axes)
      result = result * axis.size + group.members[static_cast<size_t>(member)] / axis.stride % axis.size;
    return result;
  };
  Partners found{-1, index(group.index, numbering)};
  for (int member = 0; member < group.size(); ++member)
    if (index(member, numbering) == group.index) found.to = member;
  return found;
}

Ticket send_start(Rank& rank, const Channel& channel, Site site, const void* data, int64_t count, Type type) {
  return start(rank, *channel.group, message_call(*channel.group, site, data, nullptr, count, type));
}

Ticket receive_start(Rank& rank, const Channel& channel, Site site, void* data, int64_t count, Type type) {
  return start(rank, *channel.group, message_call(*channel.group, site, nullptr, data, count, type));
}

void barrier(Rank& rank, const Group& group, Site site) { run(rank, group, barrier_call(group, site)); }

}  // namespace meshrt
