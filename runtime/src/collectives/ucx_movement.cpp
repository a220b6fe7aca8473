// Everything but all-reduce over UCX: every pair exchanges its pieces directly, in rounds of at most
// UcxCall::round_bytes a pair, so that buffers for packing stay small. A member of a group of k sends k - 1 messages a
// round; runs that are contiguous are sent and received in place, those of several values are packed. Sums wait for the
// pieces of all members and are taken as over shared memory. The first round follows the announcement at once, where no
// earlier call is under way: it is looked at when all announcements are known to be of this call.
#include <algorithm>

#include "collectives/ucx_rounds.h"

namespace meshrt {

namespace {

constexpr int pieces_lane = 1;

// The one value of a call whose bytes from or to a member lie side by side: it needs no packing.
bool is_contiguous(const Call& call, const Piece& piece) { return call.items().size() == 1 && piece.rows == 1; }

}  // namespace

Task ucx_movement(UcxCall exchange, const Call& call, HeadOfQueue& head) {
  exchange.announce();
  if (call.kind == Kind::barrier) {
    co_await exchange.finished();
    co_await head;
    co_return;
  }
  const int me = call.me;
  const int64_t round_bytes = UcxCall::round_bytes(call.members);
  const Item& only = call.items().front();
  const auto incoming_bytes = [&](int member) {
    int64_t bytes = 0;
    for (const Item& item : call.items()) bytes += destination_piece(call, item, member, me).bytes();
    return bytes;
  };
  int64_t largest = 0;
  for (int member = 0; member < call.members; ++member)
    largest = std::max({largest, piece_bytes(call, me, member), incoming_bytes(member)});
  const BufferPool::Buffer incoming = exchange.room(call.members * round_bytes),
                           outgoing = exchange.room(call.members * round_bytes);
  const auto post = [&](int64_t round) {
    const auto step = static_cast<uint32_t>(round + 1);
    for (int member = 0; member < call.members; ++member) {
      if (member == me) continue;
      const Piece piece = destination_piece(call, only, member, me);
      const Range range = round_of(round, incoming_bytes(member), round_bytes);
      std::byte* to = is_contiguous(call, piece) && !call.sums() ? only.destination + piece.offset + range.begin
                                                                 : incoming.data() + member * round_bytes;
      exchange.receive(member, step, to, range.bytes(), pieces_lane);
    }
    for (int i = 1; i < call.members; ++i) {
      const int member = (me + i) % call.members;
      const Piece piece = source_piece(call, only, me, member);
      const Range range = round_of(round, piece_bytes(call, me, member), round_bytes);
      if (range.bytes() == 0) continue;
      const std::byte* from = only.source + piece.offset + range.begin;
      if (!is_contiguous(call, piece)) {
        std::byte* packed = outgoing.data() + member * round_bytes;
        pack_pieces(call, packed, member, range.begin, range.end);
        from = packed;
      }
      exchange.send(member, step, from, range.bytes(), pieces_lane);
    }
  };
  const bool at_once = head.met();
  if (at_once) post(0);
  co_await exchange.finished();
  co_await head;
  if (!call.sums())
    for (const Item& item : call.items()) {
      const Piece to = destination_piece(call, item, me, me);
      copy_piece(item.destination, to, item.source, source_piece(call, item, me, me), 0, to.bytes());
    }
  for (int64_t round = 0; round < rounds_of(largest, round_bytes); ++round) {
    if (round > 0 || !at_once) post(round);
    co_await exchange.finished(pieces_lane);
    if (call.sums()) {
      sum_round(
          call, incoming.data(), round_bytes, round_of(round, piece_bytes(call, me, me), round_bytes),
          [&](const Item& item) { return source_piece(call, item, me, me); },
          [](const Item& item, int64_t at, int64_t) { return item.destination + at; });
      continue;
    }
    for (int member = 0; member < call.members; ++member) {
      const Range range = round_of(round, incoming_bytes(member), round_bytes);
      if (member != me && range.bytes() > 0 && !is_contiguous(call, destination_piece(call, only, member, me)))
        unpack_pieces(call, incoming.data() + member * round_bytes, member, range.begin, range.end);
    }
  }
}

// Between two members, in rounds as long as a pair alone has them: both ends count alike.
Task ucx_permute(UcxCall exchange, const Call& call, HeadOfQueue& head) {
  exchange.announce();
  co_await exchange.finished();
  co_await head;
  const Item& value = call.only;
  if (call.from == call.me)
    copy_boxes(value.destination, call.received, value.source, call.taken, 0, bytes_of(call.received));
  const bool sends = call.to >= 0 && call.to != call.me, receives = call.from >= 0 && call.from != call.me;
  const int64_t sent = sends ? bytes_of(call.sent) : 0, received = receives ? bytes_of(call.received) : 0;
  constexpr int64_t round_bytes = UcxCall::round_bytes(2);
  const bool packs = sent > 0 && !is_contiguous(call.sent), unpacks = received > 0 && !is_contiguous(call.received);
  const auto room_if = [&](bool needed) { return needed ? exchange.room(round_bytes) : BufferPool::Buffer{}; };
  const BufferPool::Buffer outgoing = room_if(packs), incoming = room_if(unpacks);
  for (int64_t round = 0; round < rounds_of(std::max(sent, received), round_bytes); ++round) {
    const auto step = static_cast<uint32_t>(round + 1);
    const Range out = round_of(round, sent, round_bytes), in = round_of(round, received, round_bytes);
    if (in.bytes() > 0)
      exchange.receive(call.from, step,
                       unpacks ? incoming.data() : value.destination + call.received.front().piece.offset + in.begin,
                       in.bytes());
    if (out.bytes() > 0) {
      if (packs) pack_boxes(outgoing.data(), value.source, call.sent, out.begin, out.end);
      exchange.send(call.to, step, packs ? outgoing.data() : value.source + call.sent.front().piece.offset + out.begin,
                    out.bytes());
    }
    co_await exchange.finished();
    if (unpacks && in.bytes() > 0) unpack_boxes(value.destination, call.received, incoming.data(), in.begin, in.end);
  }
}

// Its receive is posted before the sender knows of it, and nothing is sent before both have compared what they do.
Task ucx_message(UcxCall exchange, const Call& call, HeadOfQueue& head) {
  constexpr int data_lane = 1;
  const int64_t bytes = call.count() * static_cast<int64_t>(size_of(call.type));
  if (call.from >= 0) exchange.receive(call.from, 1, call.only.destination, bytes, data_lane);
  exchange.announce();
  co_await exchange.finished();
  co_await head;
  if (call.to >= 0) exchange.send(call.to, 1, call.only.source, bytes, data_lane);
  co_await exchange.finished(data_lane);
}

}  // namespace meshrt
