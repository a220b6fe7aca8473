// ucx_rounds.h: what algorithms over UCX have in common: a message is at most a round of what a pair exchanges, and
// sums wait for the pieces of all members.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/vector_ops.h"
#include "transport/call.h"
#include "transport/ucx_call.h"

namespace meshrt {

struct Range {
  int64_t begin, end;
  int64_t bytes() const { return end - begin; }
};

inline Range round_of(int64_t round, int64_t bytes, int64_t round_bytes) {
  return {std::min(round * round_bytes, bytes), std::min((round + 1) * round_bytes, bytes)};
}

inline int64_t rounds_of(int64_t bytes, int64_t round_bytes) { return (bytes + round_bytes - 1) / round_bytes; }

// Sums bytes `range` of the stretches that `pieces` gives of each value: this member's own in place, the others' packed
// `round_bytes` apart in `theirs`. The sums go to `to`, a place in each value.
template <class PieceOf, class PlaceOf>
void sum_round(const Call& call, const std::byte* theirs, int64_t round_bytes, Range range, PieceOf piece_of,
               PlaceOf place_of) {
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

}  // namespace meshrt
