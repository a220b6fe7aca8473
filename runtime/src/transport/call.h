// call.h: one collective call of one member in the form that every transport runs. All collectives but all-reduce are
// movements of pieces: member `to` takes from member `from` one piece of its source, a number of equal runs at a fixed
// stride, and puts it into its destination; a reduce-scatter sums the pieces of all members instead, and in a permute,
// which concerns two members, there may be many pieces. An all-reduce, all-gather or reduce-scatter may work on several
// values at once: its bytes are those of all values, one after the other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "meshrt/collectives.h"
#include "transport/announcement.h"
#include "transport/boxes.h"
#include "transport/piece.h"

namespace meshrt {

struct FlightCall;  // report/flight_recorder.h

/// Of a message over a channel: which, and the other end.
struct ChannelMessage {
  int micro_batch = -1;  ///< -1: messages of its channel have no names
  int slots = 1;         ///< of the channel
  int peer = -1;         ///< rank
};

/// One value that a call works on.
struct Item {
  const std::byte* source = nullptr;  ///< of an all-reduce and a broadcast the same as destination
  std::byte* destination = nullptr;
  int64_t count = 0;  ///< elements of the whole value; of a permute: elements sent
  Blocks blocks{};    ///< reduce-scatter, all-gather
  /// Elements from one outer index to the next, of the whole and of an all-gather's parts; 0: those of the blocks.
  int64_t whole_row = 0, part_row = 0;
};

constexpr size_t most_items = 64;  ///< of one call

struct Call {
  Kind kind = Kind::barrier;
  Type type = Type::u8;
  Reduce reduce = Reduce::sum;
  Site site;
  uint32_t sequence = 0;    ///< number of the call in its group
  int members = 0, me = 0;  ///< size of the group, index in it
  Item only;                ///< the value, unless there are several
  std::vector<Item> several;
  Exchange exchange{};        ///< all-to-all
  int root = -1;              ///< broadcast
  int to = -1, from = -1;     ///< permute; of a message one of them
  int64_t receive_count = 0;  ///< permute
  ChannelMessage message;
  /// Of a permute and a message, in bytes: what is sent, what the sender sends of its source, and where that goes.
  Boxes sent, taken, received;
  Announcement announced;  ///< but for the number of the call; by prepare(), as what follows
  int64_t bytes = 0;       ///< of this member's source buffers
  /// What this member does by itself when the call is finished, of `own_bytes` those from begin to end; may be empty.
  std::function<void(int64_t begin, int64_t end)> then;
  int64_t own_bytes = 0;
  FlightCall* noted = nullptr;  ///< where the flight recorder has it; null: nowhere

  void do_own_work() const {
    if (then) then(0, own_bytes);
  }
  /// The transport tells that it is finished, that work too.
  void end() const;

  std::span<const Item> items() const { return several.empty() ? std::span<const Item>(&only, 1) : several; }
  int64_t count() const {
    int64_t all = 0;
    for (const Item& item : items()) all += item.count;
    return all;
  }
  bool sums() const { return kind == Kind::all_reduce || kind == Kind::reduce_scatter; }
};

/// What member `to` takes from the source of member `from`, of one value. Not for all-reduce, permutes and messages.
Piece source_piece(const Call& call, const Item& item, int from, int to);

/// Where member `to` puts it. Of a reduce-scatter all pieces have one place.
Piece destination_piece(const Call& call, const Item& item, int from, int to);

/// Bytes that member `to` takes from member `from`.
int64_t piece_bytes(const Call& call, int from, int to);

/// The most over all pairs of members, a member and itself included.
int64_t largest_piece(const Call& call);

/// Bytes of this member's source buffer of one value.
int64_t source_bytes(const Call& call, const Item& item);

/// Bytes that this member sends in a call, by the formulas of collectives.h.
int64_t sent_bytes(const Call& call);

/// Splits bytes [begin, end) of all values, of which each has `bytes_of(item)`, by value: visit(item, begin and end
/// within it, bytes before since begin).
template <class BytesOf, class Visit>
void each_item(const Call& call, int64_t begin, int64_t end, BytesOf bytes_of, Visit visit) {
  int64_t first = 0;
  for (const Item& item : call.items()) {
    const int64_t bytes = bytes_of(item), from = std::max(begin, first), to = std::min(end, first + bytes);
    if (from < to) visit(item, from - first, to - first, from - begin);
    first += bytes;
  }
}

/// Bytes [begin, end) of an all-reduce to a contiguous buffer, and from one.
void pack_values(const Call& call, std::byte* to, int64_t begin, int64_t end);
void unpack_values(const Call& call, const std::byte* from, int64_t begin, int64_t end);

/// Bytes [begin, end) of what member `to` takes from this member to a contiguous buffer; of what this member takes from
/// member `from`, from one.
void pack_pieces(const Call& call, std::byte* packed, int to, int64_t begin, int64_t end);
void unpack_pieces(const Call& call, const std::byte* packed, int from, int64_t begin, int64_t end);

/// True when every member takes the same piece (all-gather, broadcast).
inline bool one_for_all(const Call& call) { return call.kind == Kind::all_gather || call.kind == Kind::broadcast; }

/// In an all-reduce, member k sums bytes [slice_begin(n, k, k's group), slice_begin(n, k + 1, ..)) of n: whole cache
/// lines.
int64_t slice_begin(int64_t bytes, int index, int members);

/// A call in a group of one: copies the source to the destination.
void run_alone(const Call& call);

}  // namespace meshrt
