// Everything but all-reduce over shared memory: members take pieces from each other's sources. Sources in the arena are
// read in place: two waits, each byte moved once. Others go through their owner's bounce buffer in rounds, one wait a
// round, the two halves of the buffer in turn.
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "collectives/vector_ops.h"
#include "transport/shared_call.h"

namespace meshrt {

namespace {

constexpr int64_t half_bounce = 2 * bounce_bytes;

// What a round moves: bytes [begin, end) of every piece, from the source in place or packed in a bounce buffer.
class Round {
 public:
  Round(const SharedCall& shared, const Call& call, int64_t index, int64_t chunk)
      : shared_(shared), call_(call), half_(static_cast<int>(index % 2)), begin_(index * chunk), chunk_(chunk) {}

  // Packs this member's pieces for the others.
  void pack() const {
    if (one_for_all(call_)) {
      const int other = call_.me == 0 ? 1 : 0;
      pack_pieces(call_, shared_.bounce(call_.me, 2 * half_), other, begin_, end_of(call_.me, other));
      return;
    }
    for (int to = 0; to < call_.members; ++to)
      if (to != call_.me) pack_pieces(call_, packed(call_.me, to), to, begin_, end_of(call_.me, to));
  }

  void take(int from) const {
    if (!is_in_place(from)) return unpack_pieces(call_, packed(from, call_.me), from, begin_, end_of(from, call_.me));
    each_item(
        call_, begin_, end_of(from, call_.me),
        [&](const Item& item) { return source_piece(call_, item, from, call_.me).bytes(); },
        [&](const Item& item, int64_t first, int64_t last, int64_t) {
          copy_piece(item.destination, destination_piece(call_, item, from, call_.me), in_place(from, item),
                     source_piece(call_, item, from, call_.me), first, last);
        });
  }

  // What is summed: bytes of a piece.
  int64_t first_summed() const { return begin_; }
  int64_t end_of_summed() const { return end_of(call_.me, call_.me); }

  // Sums bytes [begin, end) of the pieces of all members, which lie alike in all sources.
  void sum(int64_t begin, int64_t end) const {
    each_item(
        call_, begin, end, [&](const Item& item) { return source_piece(call_, item, call_.me, call_.me).bytes(); },
        [&](const Item& item, int64_t first, int64_t last, int64_t before) {
          sum(item, first, last, begin - begin_ + before);
        });
  }

 private:
  void sum(const Item& item, int64_t begin, int64_t end, int64_t before) const {
    thread_local std::vector<const std::byte*> sources;
    sources.resize(call_.members);
    const auto size = static_cast<int64_t>(size_of(call_.type));
    const Piece piece = source_piece(call_, item, call_.me, call_.me);
    each_stretch(piece, begin, end, [&](int64_t done, int64_t place, int64_t length) {
      for (int from = 0; from < call_.members; ++from)
        sources[from] = is_in_place(from) ? in_place(from, item) + place : packed(from, call_.me) + before + done;
      vector_ops().reduce(call_.type, call_.reduce, item.destination + begin + done, sources.data(), call_.members,
                          length / size);
    });
  }
  int64_t end_of(int from, int to) const {
    return std::clamp(begin_ + chunk_, begin_, std::max(begin_, piece_bytes(call_, from, to)));
  }
  bool is_in_place(int from) const { return from == call_.me || shared_.in_place(from); }
  const std::byte* in_place(int from, const Item& item) const {
    return from == call_.me ? item.source : shared_.source_of(from, item);
  }
  std::byte* packed(int from, int to) const {
    return shared_.bounce(from, 2 * half_) + (one_for_all(call_) ? 0 : to * chunk_);
  }

  const SharedCall& shared_;
  const Call& call_;
  int half_;
  int64_t begin_, chunk_;
};

// Takes a round from the others when they have come to `step`. Starting after oneself, so that not everybody reads
// member 0 first.
Task take_all(const SharedCall& shared, const Call& call, const Round& round, uint32_t step) {
  if (call.sums()) {
    co_await shared.all_stepped(step);
    for (int64_t at = round.first_summed(), end = round.end_of_summed(); at < end; at += bytes_between_pauses) {
      round.sum(at, std::min(at + bytes_between_pauses, end));
      co_await Pause();
    }
    co_return;
  }
  for (int i = 1; i <= call.members; ++i) {
    const int from = (call.me + i) % call.members;
    if (call.kind == Kind::broadcast && (from != call.root || call.me == call.root)) continue;
    co_await shared.stepped(from, step);
    round.take(from);
  }
}

}  // namespace

Task shared_movement(SharedCall shared, const Call& call, HeadOfQueue& head) {
  co_await shared.slot_free();
  shared.announce();
  co_await shared.all_announced();
  co_await head;
  const bool in_place = shared.all_in_place();
  constexpr int64_t whole = std::numeric_limits<int64_t>::max(), line = 64;
  const int64_t chunk = in_place ? whole : one_for_all(call) ? half_bounce : half_bounce / call.members / line * line;
  const auto rounds = static_cast<uint32_t>(in_place ? 1 : (largest_piece(call) + chunk - 1) / chunk);
  for (uint32_t i = 0; i < rounds; ++i) {
    const Round round(shared, call, i, chunk);
    if (i >= 2) co_await shared.all_stepped(i);  // everybody has taken round i - 2, whose half is packed again
    if (!in_place && !shared.in_place(call.me)) round.pack();
    if (!in_place) shared.publish(i + 1);
    Task taken = take_all(shared, call, round, in_place ? 0 : i + 1);
    co_await taken;
  }
  shared.publish(rounds + 1);
  co_await shared.all_stepped(rounds + 1);  // nobody reads this member's source any more
}

Task shared_permute(SharedCall shared, const Call& call, HeadOfQueue& head) {
  const Item& value = call.only;
  const bool sends = call.to >= 0 && call.to != call.me, receives = call.from >= 0 && call.from != call.me;
  co_await shared.slot_free();
  shared.announce();
  if (sends) co_await shared.announced(call.to);
  if (receives) co_await shared.announced(call.from);
  co_await head;
  if (call.from == call.me)
    copy_boxes(value.destination, call.received, value.source, call.taken, 0, bytes_of(call.received));
  const auto rounds_of = [](bool in_place, int64_t bytes) {
    return in_place ? 1 : (bytes + half_bounce - 1) / half_bounce;
  };
  const bool packs = !shared.in_place(call.me), packed = receives && !shared.in_place(call.from);
  const int64_t sent = bytes_of(call.sent), received = bytes_of(call.received);
  const int64_t sending = sends ? rounds_of(!packs, sent) : 0;
  const int64_t receiving = receives ? rounds_of(!packed, received) : 0;
  for (int64_t i = 0; i < std::max(sending, receiving); ++i) {
    const int64_t begin = i * half_bounce;
    if (i < sending && packs) {
      if (i >= 2) co_await shared.taken(call.to, static_cast<uint32_t>(i - 1));
      pack_boxes(shared.bounce(call.me, 2 * (i % 2)), value.source, call.sent, begin,
                 std::min(begin + half_bounce, sent));
      shared.publish(static_cast<uint32_t>(i + 1));
    }
    if (i < receiving) {
      if (packed) {
        co_await shared.stepped(call.from, static_cast<uint32_t>(i + 1));
        unpack_boxes(value.destination, call.received, shared.bounce(call.from, 2 * (i % 2)), begin,
                     std::min(begin + half_bounce, received));
      } else {
        copy_boxes(value.destination, call.received, shared.source_of(call.from, value), call.taken, 0, received);
      }
      shared.publish_taken(static_cast<uint32_t>(i + 1));
    }
  }
  if (sending) co_await shared.taken(call.to, static_cast<uint32_t>(sending));
}

}  // namespace meshrt
