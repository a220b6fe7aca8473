// Collectives over UCX: every pair exchanges its pieces directly, in rounds of at most UcxCall::round_bytes a pair, so
// that buffers for packing stay small. A member of a group of k sends k - 1 messages a round; runs that are contiguous
// are sent and received in place, those of several values are packed. Sums wait for the pieces of all members and are
// taken as over shared memory. All-reduce: up to small_payload with the announcements; above as a reduce-scatter
// of slices, then an all-gather.
#include <algorithm>
#include <vector>

#include "collectives/vector_ops.h"
#include "transport/ucx_call.h"

namespace meshrt {

namespace {

struct Range {
  int64_t begin, end;
  int64_t bytes() const { return end - begin; }
};

Range round_of(int64_t round, int64_t bytes, int64_t round_bytes) {
  return {std::min(round * round_bytes, bytes), std::min((round + 1) * round_bytes, bytes)};
}

int64_t rounds_of(int64_t bytes, int64_t round_bytes) { return (bytes + round_bytes - 1) / round_bytes; }

// Sums bytes `range` of the stretches that `pieces` gives of each value: this member's own in place, the others' packed
// one after the other in `theirs`. The sums go to `to`, a place in each value.
template <class PieceOf, class PlaceOf>
void sum(const Call& call, const std::byte* theirs, Range range, PieceOf piece_of, PlaceOf place_of) {
  const int64_t round_bytes = UcxCall::round_bytes(call.members);
  std::vector<const std::byte*> sources(call.members);
  const auto size = static_cast<int64_t>(size_of(call.type));
  each_item(
      call, range.begin, range.end, [&](const Item& item) { return piece_of(item).bytes(); },
      [&](const Item& item, int64_t begin, int64_t end, int64_t before) {
        each_stretch(piece_of(item), begin, end, [&](int64_t done, int64_t place, int64_t length) {
          for (int member = 0; member < call.members; ++member)
            sources[member] = member == call.me ? item.source + place : theirs + member * round_bytes + before + done;
          vector_ops().reduce(call.type, call.reduce, place_of(item, begin + done, place), sources.data(), call.members,
                              length / size);
        });
      });
}

// The one value of a call whose bytes from or to a member lie side by side: it needs no packing.
bool is_contiguous(const Call& call, const Piece& piece) { return call.items().size() == 1 && piece.rows == 1; }

}  // namespace

void ucx_movement(UcxCall& exchange, const Call& call) {
  const int me = call.me;
  const int64_t round_bytes = UcxCall::round_bytes(call.members);
  const Item& only = call.items().front();
  if (!call.sums())
    for (const Item& item : call.items()) {
      const Piece to = destination_piece(call, item, me, me);
      copy_piece(item.destination, to, item.source, source_piece(call, item, me, me), 0, to.bytes());
    }
  const auto incoming_bytes = [&](int member) {
    int64_t bytes = 0;
    for (const Item& item : call.items()) bytes += destination_piece(call, item, member, me).bytes();
    return bytes;
  };
  int64_t largest = 0;
  for (int member = 0; member < call.members; ++member)
    largest = std::max({largest, piece_bytes(call, me, member), incoming_bytes(member)});
  for (int64_t round = 0; round < rounds_of(largest, round_bytes); ++round) {
    const auto step = static_cast<uint32_t>(round + 1);
    for (int member = 0; member < call.members; ++member) {
      if (member == me) continue;
      const Piece piece = destination_piece(call, only, member, me);
      const Range range = round_of(round, incoming_bytes(member), round_bytes);
      std::byte* to = is_contiguous(call, piece) && !call.sums()
                          ? only.destination + piece.offset + range.begin
                          : exchange.incoming(call.members, round_bytes) + member * round_bytes;
      exchange.receive(member, step, to, range.bytes());
    }
    for (int i = 1; i < call.members; ++i) {
      const int member = (me + i) % call.members;
      const Piece piece = source_piece(call, only, me, member);
      const Range range = round_of(round, piece_bytes(call, me, member), round_bytes);
      if (range.bytes() == 0) continue;
      const std::byte* from = only.source + piece.offset + range.begin;
      if (!is_contiguous(call, piece)) {
        std::byte* packed = exchange.outgoing(call.members, round_bytes) + member * round_bytes;
        pack_pieces(call, packed, member, range.begin, range.end);
        from = packed;
      }
      exchange.send(member, step, from, range.bytes());
    }
    exchange.await();
    if (call.sums()) {
      sum(
          call, exchange.incoming(call.members, round_bytes), round_of(round, piece_bytes(call, me, me), round_bytes),
          [&](const Item& item) { return source_piece(call, item, me, me); },
          [](const Item& item, int64_t at, int64_t) { return item.destination + at; });
      continue;
    }
    for (int member = 0; member < call.members; ++member) {
      const Range range = round_of(round, incoming_bytes(member), round_bytes);
      if (member != me && range.bytes() > 0 && !is_contiguous(call, destination_piece(call, only, member, me)))
        unpack_pieces(call, exchange.incoming(call.members, round_bytes) + member * round_bytes, member, range.begin,
                      range.end);
    }
  }
}

void ucx_all_reduce(UcxCall& exchange, const Call& call) {
  const int64_t bytes = source_bytes(call);
  const Item& only = call.items().front();
  if (bytes <= UcxCall::small_payload) {
    std::vector<const std::byte*> sources(call.members);
    each_item(
        call, 0, bytes, [&](const Item& item) { return source_bytes(call, item); },
        [&](const Item& item, int64_t, int64_t, int64_t done) {
          for (int member = 0; member < call.members; ++member) sources[member] = exchange.small_of(member) + done;
          vector_ops().reduce(call.type, call.reduce, item.destination, sources.data(), call.members, item.count);
        });
    return;
  }
  const int64_t round_bytes = UcxCall::round_bytes(call.members);
  // Member m's slice, and what of it a round moves.
  const auto slice = [&](int member) {
    return Range{slice_begin(bytes, member, call.members), slice_begin(bytes, member + 1, call.members)};
  };
  const auto part = [&](int member, int64_t round) {
    const Range whole = slice(member), range = round_of(round, whole.bytes(), round_bytes);
    return Range{whole.begin + range.begin, whole.begin + range.end};
  };
  const bool packs = call.items().size() > 1;
  // What leaves this member: in place, or packed. What arrives: in place, or unpacked afterwards.
  const auto outgoing = [&](int member, Range range) -> const std::byte* {
    if (!packs) return only.source + range.begin;
    std::byte* packed = exchange.outgoing(call.members, round_bytes) + member * round_bytes;
    pack_values(call, packed, range.begin, range.end);
    return packed;
  };
  int64_t longest = 0;
  for (int member = 0; member < call.members; ++member) longest = std::max(longest, slice(member).bytes());
  for (int64_t round = 0; round < rounds_of(longest, round_bytes); ++round) {
    std::byte* incoming = exchange.incoming(call.members, round_bytes);
    const Range mine = part(call.me, round);
    const auto scatter = static_cast<uint32_t>(2 * round + 1), gather = scatter + 1;
    for (int member = 0; member < call.members; ++member) {
      if (member == call.me) continue;
      const Range theirs = part(member, round);
      exchange.receive(member, scatter, incoming + member * round_bytes, mine.bytes());
      exchange.send(member, scatter, outgoing(member, theirs), theirs.bytes());
    }
    exchange.await();
    sum(
        call, incoming, mine,
        [&](const Item& item) {
          const int64_t whole = source_bytes(call, item);
          return Piece{0, 1, whole, whole};
        },
        [](const Item& item, int64_t, int64_t place) { return item.destination + place; });
    const std::byte* summed = outgoing(call.me, mine);
    for (int member = 0; member < call.members; ++member) {
      if (member == call.me) continue;
      const Range theirs = part(member, round);
      exchange.receive(member, gather, packs ? incoming + member * round_bytes : only.destination + theirs.begin,
                       theirs.bytes());
      exchange.send(member, gather, summed, mine.bytes());
    }
    exchange.await();
    for (int member = 0; member < call.members && packs; ++member) {
      const Range theirs = part(member, round);
      if (member != call.me) unpack_values(call, incoming + member * round_bytes, theirs.begin, theirs.end);
    }
  }
}

}  // namespace meshrt
