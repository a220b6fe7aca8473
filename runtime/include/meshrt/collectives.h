// collectives.h: what ranks of a group do together. All calls are made by every member of the group in the same order.
// Sums go in a balanced binary tree over the order of the group, ((0 1) (2 3)) 4, so all members get the same bits,
// whatever the transport and whatever it sends.
//
// Buffers in the arena (see Rank::arena) are read and written in place by the peers of a host; others are staged, which
// costs two copies. Members' buffers need not lie at equal offsets. An input and an output do not overlap, but for a
// member's part that already lies in its place in the whole (all-gather, reduce-scatter). Ranks that diverge end with
// Failure (Cause::mismatch) naming both calls; a rank that waits longer than MESHRT_TIMEOUT seconds for another ends
// with Failure (Cause::timeout) naming it. Costs per member for a group of k and S bytes of the whole value: all-reduce
// sends 2 (k-1)/k S, reduce-scatter, all-gather and broadcast (k-1)/k S, all-to-all (k-1)/k of the local part, permute
// the local part; in a broadcast out of place the root sends (k-1) S, in a reduce the others S each.
#pragma once
#include <cstdint>
#include <span>

#include "meshrt/poll.h"
#include "meshrt/rank.h"
#include "meshrt/types.h"

namespace meshrt {

/// A call site in the emitted program: the index into its table of spans, and the name of the value. Travels with every
/// call so that a failure, a mismatch between ranks or a trace names the line of the spec.
struct Site {
  int32_t id = -1;
  const char* value = "";
};

/// A value of which one dim is split over a group: [outer, begin.back() - begin.front(), inner] elements, row-major;
/// member k owns [begin[k] - begin[0], begin[k+1] - begin[0]) of the middle extent (parts may be empty). `begin` has
/// size() + 1 entries.
struct Blocks {
  int64_t outer;
  std::span<const int64_t> begin;
  int64_t inner;
};

/// A value [outer, A, middle, B, inner] of which the group splits A on one side of an all-to-all and B on the other.
struct Exchange {
  int64_t outer;
  std::span<const int64_t> first;  ///< parts of A, as Blocks::begin
  int64_t middle;
  std::span<const int64_t> second;  ///< parts of B
  int64_t inner;
  /// true: from [.., A part, .., B whole, ..] to [.., A whole, .., B part, ..]; false: the reverse
  bool gathers_first;
};

/// data [count] = the reduction of every member's data, in place.
void all_reduce(Rank&, const Group&, Site, void* data, int64_t count, Type, Reduce);

/// part [outer, own part, inner] = this member's part of the reduction of every member's whole [outer, all, inner].
void reduce_scatter(Rank&, const Group&, Site, const void* whole, void* part, const Blocks&, Type, Reduce);

/// whole [outer, all, inner] = the parts of all members side by side.
void all_gather(Rank&, const Group&, Site, const void* part, void* whole, const Blocks&, Type);

// ---- several values in one call ------------------------------------------------------------------------------------

/// Values of one type, moved as above, for one wait in place of many. All members give them in the same order.
struct Whole {
  void* data;
  int64_t count;
};
struct Scattered {
  const void* whole;
  void* part;
  Blocks blocks;
};
struct Gathered {
  const void* part;
  void* whole;
  Blocks blocks;
};
void all_reduce(Rank&, const Group&, Site, std::span<const Whole>, Type, Reduce);
void reduce_scatter(Rank&, const Group&, Site, std::span<const Scattered>, Type, Reduce);
void all_gather(Rank&, const Group&, Site, std::span<const Gathered>, Type);

// --------------------------------------------------------------------------------------------------------------------

/// Moves the group's split from one dim to another; see Exchange.
void all_to_all(Rank&, const Group&, Site, const void* from, void* to, const Exchange&, Type);

/// data [count] of member `root` becomes everybody's.
void broadcast(Rank&, const Group&, Site, void* data, int64_t count, Type, int root);

/// What member `root` has `from` [count] of, everybody gets `to`, `root` too. The others' `from` is not read.
void broadcast(Rank&, const Group&, Site, const void* from, void* to, int64_t count, Type, int root);

/// to [count] of member `root` = the reduction of every member's `from`; the others' `to` is not written.
void reduce(Rank&, const Group&, Site, const void* from, void* to, int64_t count, Type, Reduce, int root);

/// Sends [send_count] to member `to` and receives [receive_count] from member `from` at the same time; -1 is nobody.
/// Waits only for these two.
void permute(Rank&, const Group&, Site, const void* send, int64_t send_count, int to, void* receive,
             int64_t receive_count, int from, Type);

/// Whom a member sends its part to and whom it gets its new part from.
struct Partners {
  int to, from;
};
/// Where the member that is k-th by `numbering`, the group's axes in another order, gets the part of the group's k-th.
Partners partners(const Group&, std::span<const Axis> numbering);

/// The margins of a rank's part of a dim: [outer, before + own + after, inner] elements, row-major.
struct Margins {
  int64_t outer, inner;
  int64_t before, after;  ///< less than the dim's size
  Edge edge;              ///< what lies beyond the dim's ends
};

/// Fills the margins in place: with what the neighbours own, by permutes between them, and beyond the ends by the edge.
/// `begin` are the parts of all members, as Blocks::begin; margins may reach over several of them. A member that owns
/// nothing gets what lies beside where it would.
void exchange_margins(Rank&, const Group&, Site, void* data, std::span<const int64_t> begin, const Margins&, Type);

/// The same for a dim of `size` that one rank holds whole.
void fill_margins(void* data, int64_t size, const Margins&, Type);

/// Returns when every member has called it.
void barrier(Rank&, const Group&, Site);

// ---- started now, finished later -----------------------------------------------------------------------------------

/// A collective under way. Between start and wait its buffers are not touched, and what Blocks::begin points to stays.
/// Starting never waits. Calls of one group finish in the order of their start, on all members; those of different
/// groups in any order. Work on them is done by every call of this file, and by poll() (poll.h) in between: without
/// either, others may wait for this rank. Four calls of a group are announced to the others, the rest as these finish.
struct Ticket {
  int32_t group = -1;
  uint32_t sequence = 0;
};
/// Returns when the call is finished; at once for a second time.
void wait(Rank&, Ticket);
/// Whether it is, after some work on all calls.
bool finished(Rank&, Ticket);

Ticket all_reduce_start(Rank&, const Group&, Site, void* data, int64_t count, Type, Reduce);
Ticket reduce_scatter_start(Rank&, const Group&, Site, const void* whole, void* part, const Blocks&, Type, Reduce);
Ticket all_gather_start(Rank&, const Group&, Site, const void* part, void* whole, const Blocks&, Type);
Ticket all_reduce_start(Rank&, const Group&, Site, std::span<const Whole>, Type, Reduce);
Ticket reduce_scatter_start(Rank&, const Group&, Site, std::span<const Scattered>, Type, Reduce);
Ticket all_gather_start(Rank&, const Group&, Site, std::span<const Gathered>, Type);
Ticket all_to_all_start(Rank&, const Group&, Site, const void* from, void* to, const Exchange&, Type);
Ticket broadcast_start(Rank&, const Group&, Site, void* data, int64_t count, Type, int root);
Ticket permute_start(Rank&, const Group&, Site, const void* send, int64_t send_count, int to, void* receive,
                     int64_t receive_count, int from, Type);
Ticket exchange_margins_start(Rank&, const Group&, Site, void* data, std::span<const int64_t> begin, const Margins&,
                              Type);
Ticket barrier_start(Rank&, const Group&, Site);

/// Values from rank to rank over a channel, in the order of the sends. Both ends name the same count and type. A send
/// is finished when its data has been taken, so a sender runs as far ahead as it has buffers; four sends are announced,
/// the rest as these are taken.
Ticket send_start(Rank&, const Channel&, Site, const void* data, int64_t count, Type);
Ticket receive_start(Rank&, const Channel&, Site, void* data, int64_t count, Type);

/// Part `index` of `parts` of `size` begins here: floor(size * index / parts).
constexpr int64_t part_begin(int64_t size, int64_t index, int64_t parts) {
  if ((size | index) >> 31 == 0) return size * index / parts;  // nearly always, and much faster
  return static_cast<int64_t>(static_cast<__int128>(size) * index / parts);
}
/// How many elements that part has.
constexpr int64_t part_extent(int64_t size, int64_t index, int64_t parts) {
  return part_begin(size, index + 1, parts) - part_begin(size, index, parts);
}

}  // namespace meshrt
