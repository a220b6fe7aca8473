// The public collectives: each describes its call and hands it to the transport, which finishes it now or at wait.
#include "meshrt/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "meshrt/failure.h"
#include "meshrt/profile.h"
#include "report/flight_recorder.h"
#include "transport/fingerprint.h"
#include "transport/transport.h"

namespace meshrt {

namespace {

Call make_call(const Group& group, Kind kind, Site site, const void* source, void* destination, Type type) {
  Call call;
  call.kind = kind;
  call.site = site;
  call.type = type;
  call.members = group.size();
  call.me = group.index;
  call.only.source = static_cast<const std::byte*>(source);
  call.only.destination = static_cast<std::byte*>(destination);
  return call;
}

int64_t elements(const Blocks& blocks) {
  return blocks.outer * (blocks.begin.back() - blocks.begin.front()) * blocks.inner;
}

void require_parts(const Group& group, const Call& call, std::span<const int64_t> begin) {
  if (static_cast<int>(begin.size()) != group.size() + 1)
    throw Failure(Cause::usage, fmt::format("{} of '{}': {} parts for a group of {}", name_of(call.kind),
                                            call.site.value, static_cast<int64_t>(begin.size()) - 1, group.size()));
}

void require_member(const Group& group, const Call& call, int member) {
  if (member >= group.size())
    throw Failure(Cause::usage, fmt::format("{} of '{}': there is no member {} in a group of {}", name_of(call.kind),
                                            call.site.value, member, group.size()));
}

Call make_blocks_call(const Group& group, Kind kind, Site site, const void* source, void* destination,
                      const Blocks& blocks, Type type) {
  Call call = make_call(group, kind, site, source, destination, type);
  require_parts(group, call, blocks.begin);
  call.only.blocks = blocks;
  call.only.count = elements(blocks);
  return call;
}

Ticket begin(Rank& rank, const Group& group, const Call& call) {
  if (StepProfile* profile = thread_profile()) profile->sent += sent_bytes(call);
  return rank.transport().start(group, call);
}

/// MESHRT_SKIP_CALL=RANK:N leaves out the N-th call of a rank: a fault for tests of what becomes of it.
bool is_skipped(const Rank& rank) {
  static const char* const skipped = std::getenv("MESHRT_SKIP_CALL");
  if (!skipped) return false;
  static thread_local int calls = 0;
  return fmt::format("{}:{}", rank.rank(), ++calls) == skipped;
}

/// A call of the program from its start to its end.
void run(Rank& rank, const Group& group, const Call& call) {
  const Timed timed(&StepProfile::calls, [&] {
    return TraceLabel{fmt::format("{} {}", name_of(call.kind), call.site.value), call.site.id,
                      call.count() * static_cast<int64_t>(size_of(call.type))};
  });
  if (is_skipped(rank)) return;
  FlightRecorder* recorder = FlightRecorder::current();
  FlightCall* noted = recorder ? recorder->begin(call) : nullptr;
  wait(rank, begin(rank, group, call));
  FlightRecorder::end(noted);
}

Call all_reduce_call(const Group& group, Site site, void* data, int64_t count, Type type, Reduce reduce) {
  Call call = make_call(group, Kind::all_reduce, site, data, data, type);
  call.only.count = count;
  call.reduce = reduce;
  return call;
}

Call reduce_scatter_call(const Group& group, Site site, const void* whole, void* part, const Blocks& blocks, Type type,
                         Reduce reduce) {
  Call call = make_blocks_call(group, Kind::reduce_scatter, site, whole, part, blocks, type);
  call.reduce = reduce;
  return call;
}

}  // namespace

Ticket all_reduce_start(Rank& rank, const Group& group, Site site, void* data, int64_t count, Type type,
                        Reduce reduce) {
  return begin(rank, group, all_reduce_call(group, site, data, count, type, reduce));
}

Ticket reduce_scatter_start(Rank& rank, const Group& group, Site site, const void* whole, void* part,
                            const Blocks& blocks, Type type, Reduce reduce) {
  return begin(rank, group, reduce_scatter_call(group, site, whole, part, blocks, type, reduce));
}

Ticket all_gather_start(Rank& rank, const Group& group, Site site, const void* part, void* whole, const Blocks& blocks,
                        Type type) {
  return begin(rank, group, make_blocks_call(group, Kind::all_gather, site, part, whole, blocks, type));
}

void wait(Rank& rank, Ticket ticket) { rank.transport().wait(ticket); }

void all_reduce(Rank& rank, const Group& group, Site site, void* data, int64_t count, Type type, Reduce reduce) {
  run(rank, group, all_reduce_call(group, site, data, count, type, reduce));
}

void reduce_scatter(Rank& rank, const Group& group, Site site, const void* whole, void* part, const Blocks& blocks,
                    Type type, Reduce reduce) {
  run(rank, group, reduce_scatter_call(group, site, whole, part, blocks, type, reduce));
}

void all_gather(Rank& rank, const Group& group, Site site, const void* part, void* whole, const Blocks& blocks,
                Type type) {
  run(rank, group, make_blocks_call(group, Kind::all_gather, site, part, whole, blocks, type));
}

namespace {

// Runs calls of at most most_items values each; describe(value) gives one of them as an Item.
template <class Value, class Describe>
void run_several(Rank& rank, const Group& group, Call call, std::span<const Value> values, Describe describe) {
  std::array<Item, most_items> items;
  for (size_t first = 0; first < values.size(); first += most_items) {
    const size_t count = std::min(most_items, values.size() - first);
    for (size_t i = 0; i < count; ++i) items[i] = describe(values[first + i]);
    call.several = std::span<const Item>(items.data(), count);
    run(rank, group, call);
  }
}

}  // namespace

void all_reduce(Rank& rank, const Group& group, Site site, std::span<const Whole> values, Type type, Reduce reduce) {
  Call call = make_call(group, Kind::all_reduce, site, nullptr, nullptr, type);
  call.reduce = reduce;
  run_several(rank, group, call, values, [](const Whole& value) {
    return Item{static_cast<const std::byte*>(value.data), static_cast<std::byte*>(value.data), value.count, {}};
  });
}

void reduce_scatter(Rank& rank, const Group& group, Site site, std::span<const Scattered> values, Type type,
                    Reduce reduce) {
  Call call = make_call(group, Kind::reduce_scatter, site, nullptr, nullptr, type);
  call.reduce = reduce;
  run_several(rank, group, call, values, [&](const Scattered& value) {
    require_parts(group, call, value.blocks.begin);
    return Item{static_cast<const std::byte*>(value.whole), static_cast<std::byte*>(value.part), elements(value.blocks),
                value.blocks};
  });
}

void all_gather(Rank& rank, const Group& group, Site site, std::span<const Gathered> values, Type type) {
  const Call call = make_call(group, Kind::all_gather, site, nullptr, nullptr, type);
  run_several(rank, group, call, values, [&](const Gathered& value) {
    require_parts(group, call, value.blocks.begin);
    return Item{static_cast<const std::byte*>(value.part), static_cast<std::byte*>(value.whole), elements(value.blocks),
                value.blocks};
  });
}

void all_to_all(Rank& rank, const Group& group, Site site, const void* from, void* to, const Exchange& exchange,
                Type type) {
  Call call = make_call(group, Kind::all_to_all, site, from, to, type);
  require_parts(group, call, exchange.first);
  require_parts(group, call, exchange.second);
  call.exchange = exchange;
  call.only.count = exchange.outer * (exchange.first.back() - exchange.first.front()) * exchange.middle *
                    (exchange.second.back() - exchange.second.front()) * exchange.inner;
  run(rank, group, call);
}

void broadcast(Rank& rank, const Group& group, Site site, void* data, int64_t count, Type type, int root) {
  Call call = make_call(group, Kind::broadcast, site, data, data, type);
  require_member(group, call, root);
  call.only.count = count;
  call.root = root;
  run(rank, group, call);
}

void permute_pieces(Rank& rank, const Group& group, Site site, const void* source, const Piece& sent, int to,
                    void* destination, const Piece& taken, const Piece& received, int from, Type type) {
  Call call = make_call(group, Kind::permute, site, source, destination, type);
  require_member(group, call, to);
  require_member(group, call, from);
  call.to = to;
  call.from = from;
  if (to >= 0) call.sent = sent;
  if (from >= 0) call.taken = taken, call.received = received;
  call.only.count = call.sent.bytes();  // in elements, as the pieces are
  call.receive_count = call.received.bytes();
  run(rank, group, call);
}

void permute(Rank& rank, const Group& group, Site site, const void* send, int64_t send_count, int to, void* receive,
             int64_t receive_count, int from, Type type) {
  const auto all = [](int64_t count) { return Piece{0, 1, count, count}; };
  permute_pieces(rank, group, site, send, all(send_count), to, receive, all(receive_count), all(receive_count), from,
                 type);
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

void barrier(Rank& rank, const Group& group, Site site) {
  run(rank, group, make_call(group, Kind::barrier, site, nullptr, nullptr, Type::u8));
}

}  // namespace meshrt
