// make_call.h: calls from what programs say of them, checked as far as one member can.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "meshrt/redistribute.h"
#include "transport/call.h"

namespace meshrt {

Call all_reduce_call(const Group&, Site, void* data, int64_t count, Type, Reduce);
Call reduce_scatter_call(const Group&, Site, const void* whole, void* part, const Blocks&, Type, Reduce);
Call all_gather_call(const Group&, Site, const void* part, void* whole, const Blocks&, Type);
Call all_to_all_call(const Group&, Site, const void* from, void* to, const Exchange&, Type);
Call broadcast_call(const Group&, Site, void* data, int64_t count, Type, int root);
Call barrier_call(const Group&, Site);

/// A permute of boxes, given in elements: this member sends `sent` of its source to `to` and gets what `from` has in
/// `taken` of its own source into `received`.
Call permute_call(const Group&, Site, const void* source, const Boxes& sent, int to, void* destination,
                  const Boxes& taken, const Boxes& received, int from, Type);
/// Of all that lies there.
Call permute_call(const Group&, Site, const void* send, int64_t send_count, int to, void* receive,
                  int64_t receive_count, int from, Type);

/// Of what lies there to the other end of a channel, or from it, as this member's place in the group says. `peer` is
/// not read.
Call message_call(const Group& channel, Site, const void* source, void* destination, int64_t count, Type,
                  ChannelMessage = {});

/// Of several values, at most most_items.
Call all_reduce_call(const Group&, Site, std::span<const Whole>, Type, Reduce);
Call reduce_scatter_call(const Group&, Site, std::span<const Scattered>, Type, Reduce);
Call all_gather_call(const Group&, Site, std::span<const Gathered>, Type);

/// One that this member makes by itself, for what it does at its end.
Call own_call(const Group&, Site, Type);
/// The permutes of a redistribution; at the end of the last this member moves what it keeps.
std::vector<Call> redistribute_calls(const Group&, Site, const void* from, void* to, const Redistribution&, Type);
/// The permutes that fill the margins; the last then fills what lies beyond the dim's ends.
std::vector<Call> margins_calls(const Group&, Site, void* data, std::span<const int64_t> begin, const Margins&, Type);

/// Where the parts of members begin of whom `root` has everything.
std::vector<int64_t> all_at(const Group&, int root, int64_t count);

/// Calls of at most most_items values each: `visit` makes them.
template <class Value, class Visit>
void each_call_of(std::span<const Value> values, Visit visit) {
  for (size_t first = 0; first < values.size(); first += most_items)
    visit(values.subspan(first, std::min(most_items, values.size() - first)));
}

/// Starts a call of the program: with its place in the trace and in the flight recorder.
Ticket start(Rank&, const Group&, Call);
/// The same of a call that is prepared (fingerprint.h), and stays where it is until it is finished; and all of it.
Ticket start_prepared(Rank&, const Group&, Call&);
void run_prepared(Rank&, const Group&, Call&);

}  // namespace meshrt
