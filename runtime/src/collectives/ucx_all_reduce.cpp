// All-reduce over UCX. Up to small_payload with the announcements. Above as a reduce-scatter of slices, then an
// all-gather, every pair directly, in rounds of which several are under way: while the sums of one round go out, the
// pieces of the next arrive. Two members give each other all they have where that is little, and both sum it: as many
// bytes, and nobody waits for sums.
#include <algorithm>
#include <array>
#include <span>

#include "collectives/ucx_rounds.h"

namespace meshrt {

namespace {

/// An all-reduce in rounds. A round's pieces and sums have each a lane of messages; rounds use those of each in turn.
/// Announcements have one to themselves: what another call sends in their place may never be whole.
class Rounds {
 public:
  Rounds(UcxCall& exchange, const Call& call)
      : exchange_(exchange),
        call_(call),
        bytes_(call.bytes),
        packs_(call.items().size() > 1),
        round_bytes_(UcxCall::round_bytes_of_sums(call.members, packs_)) {
    for (Room& room : std::span(rooms_).first(static_cast<size_t>(under_way()))) {
      room.pieces = exchange.room(call.members * round_bytes_);
      if (packs_) room.sums = exchange.room(call.members * round_bytes_);
      if (packs_) room.leaving = exchange.room(call.members * round_bytes_);
    }
  }

  int64_t count() const {
    int64_t longest = 0;
    for (int member = 0; member < call_.members; ++member) longest = std::max(longest, slice(member).bytes());
    return rounds_of(longest, round_bytes_);
  }

  /// Rounds that have begun and not ended.
  int under_way() const { return UcxCall::rounds_of_sums(call_.members); }
  int pieces_lane(int64_t round) const { return 1 + static_cast<int>(round % under_way()); }
  int sums_lane(int64_t round) const { return pieces_lane(round) + UcxCall::most_rounds_of_sums; }

  /// Posts what this member contributes to the others' slices, and what they contribute to its own.
  void exchange_pieces(int64_t round) {
    const Range mine = part(call_.me, round);
    const auto step = static_cast<uint32_t>(2 * round + 1);
    each_other([&](int member) {
      exchange_.receive(member, step, at(room(round).pieces, member), mine.bytes(), pieces_lane(round));
    });
    each_other([&](int member) {
      const Range theirs = part(member, round);
      exchange_.send(member, step, leaving(round, member, theirs), theirs.bytes(), pieces_lane(round));
    });
  }

  /// Sums the pieces that have come, posts the sums and what the others have summed, unless all have summed all.
  void exchange_sums(int64_t round) {
    const Range mine = part(call_.me, round);
    sum_round(
        call_, room(round).pieces.data(), round_bytes_, mine,
        [&](const Item& item) {
          const int64_t whole = source_bytes(call_, item);
          return Piece{0, 1, whole, whole};
        },
        [](const Item& item, int64_t, int64_t place) { return item.destination + place; });
    if (all_sum_all()) return;
    const auto step = static_cast<uint32_t>(2 * round + 2);
    const std::byte* const summed = leaving(round, call_.me, mine);
    each_other([&](int member) {
      const Range theirs = part(member, round);
      if (theirs.bytes() == 0) return;
      std::byte* const place = in_place(theirs);
      exchange_.receive(member, step, place ? place : at(room(round).sums, member), theirs.bytes(), sums_lane(round));
    });
    each_other([&](int member) { exchange_.send(member, step, summed, mine.bytes(), sums_lane(round)); });
  }

  /// Puts the others' sums into their places, where they have not come there by themselves.
  void take_sums(int64_t round) {
    if (all_sum_all()) return;
    each_other([&](int member) {
      const Range theirs = part(member, round);
      if (theirs.bytes() > 0 && !in_place(theirs))
        unpack_values(call_, at(room(round).sums, member), theirs.begin, theirs.end);
    });
  }

 private:
  struct Room {
    BufferPool::Buffer pieces, sums, leaving;
  };

  Room& room(int64_t round) { return rooms_[static_cast<size_t>(round % under_way())]; }
  std::byte* at(const BufferPool::Buffer& buffer, int member) const { return buffer.data() + member * round_bytes_; }
  /// Starting after oneself, so that not everybody sends to member 0 first.
  template <class Visit>
  void each_other(Visit visit) const {
    for (int i = 1; i < call_.members; ++i) visit((call_.me + i) % call_.members);
  }
  bool all_sum_all() const { return call_.members == 2 && bytes_ <= most_to_sum_twice; }
  /// What a member sums of all bytes, and what of it a round moves.
  Range slice(int member) const {
    if (all_sum_all()) return {0, bytes_};
    return {slice_begin(bytes_, member, call_.members), slice_begin(bytes_, member + 1, call_.members)};
  }
  Range part(int member, int64_t round) const {
    const Range whole = slice(member), range = round_of(round, whole.bytes(), round_bytes_);
    return {whole.begin + range.begin, whole.begin + range.end};
  }
  /// Where bytes of the call lie; null: in several values.
  std::byte* in_place(Range range) const {
    std::byte* place = nullptr;
    each_item(
        call_, range.begin, range.end, [&](const Item& item) { return source_bytes(call_, item); },
        [&](const Item& item, int64_t begin, int64_t end, int64_t) {
          place = end - begin == range.bytes() ? item.destination + begin : nullptr;
        });
    return place;
  }
  /// Where bytes lie that leave this member: in place, or packed.
  const std::byte* leaving(int64_t round, int member, Range range) {
    if (range.bytes() == 0) return nullptr;
    if (const std::byte* const place = in_place(range)) return place;
    std::byte* const packed = at(room(round).leaving, member);
    pack_values(call_, packed, range.begin, range.end);
    return packed;
  }

  static constexpr int64_t most_to_sum_twice = int64_t(256) << 10;

  UcxCall& exchange_;
  const Call& call_;
  int64_t bytes_;
  bool packs_;
  int64_t round_bytes_;
  std::array<Room, UcxCall::most_rounds_of_sums> rooms_;
};

void sum_small(const UcxCall& exchange, const Call& call) {
  std::vector<const std::byte*> sources(call.members);
  each_item(
      call, 0, call.bytes, [&](const Item& item) { return source_bytes(call, item); },
      [&](const Item& item, int64_t, int64_t, int64_t done) {
        for (int member = 0; member < call.members; ++member) sources[member] = exchange.small_of(member) + done;
        vector_ops().reduce(call.type, call.reduce, item.destination, sources.data(), call.members, item.count);
      });
}

}  // namespace

Task ucx_all_reduce(UcxCall exchange, const Call& call, HeadOfQueue& head) {
  exchange.announce();
  if (call.bytes <= UcxCall::small_payload) {
    co_await exchange.finished();
    co_await head;
    sum_small(exchange, call);
    co_return;
  }
  Rounds rounds(exchange, call);
  const int64_t count = rounds.count();
  // The first pieces follow the announcement at once, else a short call would take a round trip more. They are looked
  // at when all announcements are known to be of this call.
  const bool at_once = head.met();
  if (at_once) rounds.exchange_pieces(0);
  co_await exchange.finished();
  co_await head;
  // Half of the rounds under way wait for pieces, half for sums.
  const int64_t depth = rounds.under_way(), half = depth / 2;
  for (int64_t round = 0; round < count + depth; ++round) {
    if (const int64_t ends = round - depth; ends >= 0 && ends < count) {
      co_await exchange.finished(rounds.sums_lane(ends));
      rounds.take_sums(ends);
    }
    if (round < count && !(round == 0 && at_once)) rounds.exchange_pieces(round);
    if (const int64_t turns = round - half; turns >= 0 && turns < count) {
      co_await exchange.finished(rounds.pieces_lane(turns));
      rounds.exchange_sums(turns);
    }
  }
}

}  // namespace meshrt
