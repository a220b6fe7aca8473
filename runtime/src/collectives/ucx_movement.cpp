// Collectives over UCX: every pair exchanges its pieces directly, in rounds of at most round_bytes a pair, so that
// buffers for packing stay small. A member of a group of k sends k - 1 messages a round; runs that are contiguous are
// sent and received in place. Sums wait for the pieces of all members and go in group order, as over shared memory.
// All-reduce: up to small_payload with the announcements; above as a reduce-scatter of slices, then an all-gather.
#include <algorithm>
#include <vector>

#include "collectives/vector_ops.h"
#include "transport/ucx_call.h"

namespace meshrt {

namespace {

constexpr int64_t round_bytes = 1 << 20;

struct Range {
  int64_t begin, end;
  int64_t bytes() const { return end - begin; }
};

Range round_of(int64_t round, int64_t bytes) {
  return {std::min(round * round_bytes, bytes), std::min((round + 1) * round_bytes, bytes)};
}

int64_t rounds_of(int64_t bytes) { return (bytes + round_bytes - 1) / round_bytes; }

// Sums bytes `range` of this member's piece: its own from `own`, the others' packed one after the other in `theirs`.
void sum(const Call& call, const std::byte* own, const Piece& piece, const std::byte* theirs, std::byte* to,
         Range range) {
  std::vector<const std::byte*> sources(call.members);
  const auto size = static_cast<int64_t>(size_of(call.type));
  each_stretch(piece, range.begin, range.end, [&](int64_t done, int64_t place, int64_t length) {
    for (int member = 0; member < call.members; ++member)
      sources[member] = member == call.me ? own + place : theirs + member * round_bytes + done;
    vector_ops().reduce(call.type, call.reduce, to + range.begin + done, sources.data(), call.members, length / size);
  });
}

}  // namespace

void ucx_movement(UcxCall& exchange, const Call& call) {
  const int me = call.me;
  if (!call.sums()) {
    const Piece from = source_piece(call, me, me), to = destination_piece(call, me, me);
    copy_piece(call.destination, to, call.source, from, 0, to.bytes());
  }
  int64_t largest = 0;
  for (int member = 0; member < call.members; ++member)
    largest = std::max({largest, source_piece(call, me, member).bytes(), destination_piece(call, member, me).bytes()});
  for (int64_t round = 0; round < rounds_of(largest); ++round) {
    const auto step = static_cast<uint32_t>(round + 1);
    for (int member = 0; member < call.members; ++member) {
      if (member == me) continue;
      const Piece piece = destination_piece(call, member, me);
      const Range range = round_of(round, piece.bytes());
      const bool direct = piece.rows == 1 && !call.sums();
      std::byte* to = direct ? call.destination + piece.offset + range.begin
                             : exchange.incoming(call.members, round_bytes) + member * round_bytes;
      exchange.receive(member, step, to, range.bytes());
    }
    for (int i = 1; i < call.members; ++i) {
      const int member = (me + i) % call.members;
      const Piece piece = source_piece(call, me, member);
      const Range range = round_of(round, piece.bytes());
      if (range.bytes() == 0) continue;
      const std::byte* from = call.source + piece.offset + range.begin;
      if (piece.rows != 1) {
        std::byte* packed = exchange.outgoing(call.members, round_bytes) + member * round_bytes;
        pack_piece(packed, call.source, piece, range.begin, range.end);
        from = packed;
      }
      exchange.send(member, step, from, range.bytes());
    }
    exchange.await();
    if (call.sums()) {
      const Piece piece = source_piece(call, me, me);
      sum(call, call.source, piece, exchange.incoming(call.members, round_bytes), call.destination,
          round_of(round, piece.bytes()));
      continue;
    }
    for (int member = 0; member < call.members; ++member) {
      const Piece piece = destination_piece(call, member, me);
      const Range range = round_of(round, piece.bytes());
      if (member != me && piece.rows > 1 && range.bytes() > 0)
        unpack_piece(call.destination, piece, exchange.incoming(call.members, round_bytes) + member * round_bytes,
                     range.begin, range.end);
    }
  }
}

void ucx_all_reduce(UcxCall& exchange, const Call& call) {
  const int64_t bytes = source_bytes(call);
  if (bytes <= UcxCall::small_payload) {
    std::vector<const std::byte*> sources(call.members);
    for (int member = 0; member < call.members; ++member) sources[member] = exchange.small_of(member);
    vector_ops().reduce(call.type, call.reduce, call.destination, sources.data(), call.members, call.count);
    return;
  }
  // Member m's slice, and what of it a round moves.
  const auto slice = [&](int member) {
    return Range{slice_begin(bytes, member, call.members), slice_begin(bytes, member + 1, call.members)};
  };
  const auto part = [&](int member, int64_t round) {
    const Range whole = slice(member), range = round_of(round, whole.bytes());
    return Range{whole.begin + range.begin, whole.begin + range.end};
  };
  int64_t longest = 0;
  for (int member = 0; member < call.members; ++member) longest = std::max(longest, slice(member).bytes());
  for (int64_t round = 0; round < rounds_of(longest); ++round) {
    std::byte* incoming = exchange.incoming(call.members, round_bytes);
    const Range mine = part(call.me, round);
    const auto scatter = static_cast<uint32_t>(2 * round + 1), gather = scatter + 1;
    for (int member = 0; member < call.members; ++member) {
      if (member == call.me) continue;
      const Range theirs = part(member, round);
      exchange.receive(member, scatter, incoming + member * round_bytes, mine.bytes());
      exchange.send(member, scatter, call.destination + theirs.begin, theirs.bytes());
    }
    exchange.await();
    sum(call, call.destination, {0, 1, bytes, bytes}, incoming, call.destination, mine);
    for (int member = 0; member < call.members; ++member) {
      if (member == call.me) continue;
      const Range theirs = part(member, round);
      exchange.receive(member, gather, call.destination + theirs.begin, theirs.bytes());
      exchange.send(member, gather, call.destination + mine.begin, mine.bytes());
    }
    exchange.await();
  }
}

}  // namespace meshrt
