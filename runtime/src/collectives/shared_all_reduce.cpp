// All-reduce over shared memory, for a group of k and S bytes.
// Small (at most small_payload): every member hands its contribution over with its announcement and sums all k itself.
// One wait; k S read.
// In the arena: member i sums the i-th slice of all k in place and writes it to all k. Two waits; each member reads S
// and writes S, whatever k is.
// Elsewhere: the same through bounce buffers, chunk by chunk, one wait a chunk; while chunk t is summed, the slices of
// chunk t - 1 are collected.
#include <algorithm>
#include <vector>

#include "collectives/vector_ops.h"
#include "transport/cache_lines.h"
#include "transport/shared_call.h"

namespace meshrt {

namespace {

// Where the operands of one sum lie, by member. Kept by the thread so that no call allocates.
template <class Byte>
std::vector<Byte*>& places_of(int members) {
  thread_local std::vector<Byte*> places;
  places.resize(members);
  return places;
}

void sum_small(const SharedCall& shared, const Call& call) {
  auto& sources = places_of<const std::byte>(shared.size());
  if (call.several.empty()) {
    for (int member = 0; member < shared.size(); ++member) sources[member] = shared.small_of(member);
    sources[shared.me()] = call.only.source;
    vector_ops().reduce(call.type, call.reduce, call.only.destination, sources.data(), shared.size(), call.only.count);
    return;
  }
  each_item(
      call, 0, call.bytes, [&](const Item& item) { return source_bytes(call, item); },
      [&](const Item& item, int64_t, int64_t, int64_t done) {
        for (int member = 0; member < shared.size(); ++member) sources[member] = shared.small_of(member) + done;
        vector_ops().reduce(call.type, call.reduce, item.destination, sources.data(), shared.size(), item.count);
      });
}

// Of a value bytes [begin, end); what this member sums of it goes on to `slice_end`.
void sum_in_place(const SharedCall& shared, const Call& call, const Item& item, int64_t begin, int64_t end,
                  int64_t slice_end) {
  constexpr int64_t block = 8 << 10;  // is fetched from the others while the one before is summed
  const auto size = static_cast<int64_t>(size_of(call.type));
  auto& values = places_of<std::byte>(shared.size());
  const auto fetch = [&](int64_t at) {
    for (int member = 0; member < shared.size(); ++member)
      if (member != shared.me()) own_ahead(shared.source_of(member, item) + at, std::min(block, slice_end - at));
  };
  fetch(begin);
  for (int64_t at = begin; at < end; at += block) {
    if (at + block < slice_end) fetch(at + block);
    // Stores past the caches would be slower: the sum brings these lines in.
    for (int member = 0; member < shared.size(); ++member) values[member] = shared.source_of(member, item) + at;
    vector_ops().reduce_everywhere(call.type, call.reduce, values.data(), shared.size(),
                                   std::min(block, end - at) / size);
  }
}

void sum_in_place(const SharedCall& shared, const Call& call, int64_t begin, int64_t end, int64_t slice_end) {
  each_item(
      call, begin, end, [&](const Item& item) { return source_bytes(call, item); },
      [&](const Item& item, int64_t first, int64_t last, int64_t done) {
        const int64_t item_begin = begin + done - first;
        sum_in_place(shared, call, item, first, last, std::min(source_bytes(call, item), slice_end - item_begin));
      });
}

// Buffers 0 and 1 hold what a member contributes to even and odd chunks, 2 and 3 the slices it has summed.
Task sum_bounced(const SharedCall& shared, const Call& call, int64_t bytes) {
  const VectorOps& ops = vector_ops();
  const auto size = static_cast<int64_t>(size_of(call.type));
  const int64_t chunks = (bytes + bounce_bytes - 1) / bounce_bytes;
  const auto length_of = [&](int64_t chunk) { return std::min(bounce_bytes, bytes - chunk * bounce_bytes); };
  for (int64_t chunk = 0; chunk <= chunks; ++chunk) {
    if (chunk < chunks)
      pack_values(call, shared.bounce(shared.me(), chunk % 2), chunk * bounce_bytes,
                  chunk * bounce_bytes + length_of(chunk));
    shared.publish(chunk + 1);
    co_await shared.all_stepped(chunk + 1);
    if (chunk > 0) {
      const int64_t before = chunk - 1, length = length_of(before);
      for (int member = 0; member < shared.size(); ++member) {
        const int64_t begin = slice_begin(length, member, shared.size());
        unpack_values(call, shared.bounce(member, 2 + before % 2) + begin, before * bounce_bytes + begin,
                      before * bounce_bytes + slice_begin(length, member + 1, shared.size()));
      }
    }
    if (chunk < chunks) {
      const int64_t length = length_of(chunk), begin = slice_begin(length, shared.me(), shared.size());
      auto& sources = places_of<const std::byte>(shared.size());  // other calls use it between two chunks
      for (int member = 0; member < shared.size(); ++member) sources[member] = shared.bounce(member, chunk % 2) + begin;
      ops.reduce(call.type, call.reduce, shared.bounce(shared.me(), 2 + chunk % 2) + begin, sources.data(),
                 shared.size(), (slice_begin(length, shared.me() + 1, shared.size()) - begin) / size);
    }
  }
  shared.publish(chunks + 2);  // the bounce buffers are free again
  co_await shared.all_stepped(chunks + 2);
}

}  // namespace

void run_small(const SharedCall& shared, const Call& call) {
  shared.wait(shared.slot_free());
  shared.announce();
  shared.wait(shared.all_announced());
  sum_small(shared, call);
}

Task shared_small(SharedCall shared, const Call& call, HeadOfQueue& head) {
  co_await shared.slot_free();
  shared.announce();
  co_await shared.all_announced();
  co_await head;
  sum_small(shared, call);
}

Task shared_all_reduce(SharedCall shared, const Call& call, HeadOfQueue& head) {
  co_await shared.slot_free();
  shared.announce();
  co_await shared.all_announced();
  co_await head;
  if (shared.all_in_place()) {
    const int64_t end = slice_begin(call.bytes, shared.me() + 1, shared.size());
    for (int64_t at = slice_begin(call.bytes, shared.me(), shared.size()); at < end; at += bytes_between_pauses) {
      sum_in_place(shared, call, at, std::min(at + bytes_between_pauses, end), end);
      co_await Pause();
    }
    shared.publish(1);
    co_await shared.all_stepped(1);
  } else {
    Task bounced = sum_bounced(shared, call, call.bytes);
    co_await bounced;
  }
}

}  // namespace meshrt
