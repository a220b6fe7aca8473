// Margins beside a part of a dim: every member takes rows from the members next to it, by a permute for each distance
// until the largest margin is full, then fills what lies beyond the dim's ends by itself.
#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/make_call.h"
#include "meshrt/failure.h"
#include "meshrt/types.h"
#include "transport/call.h"

namespace meshrt {

namespace {

struct Parts {
  std::span<const int64_t> begin;
  bool wraps;
  int count() const { return static_cast<int>(begin.size()) - 1; }
  int64_t own(int member) const { return begin[member + 1] - begin[member]; }
  /// The member `steps` away, or -1.
  int neighbour(int member, int steps) const {
    const int other = member + steps;
    if (other >= 0 && other < count()) return other;
    return wraps ? (other + count()) % count() : -1;
  }
  /// Rows of the next members up to `steps` away, as far as there are any.
  int64_t rows_within(int member, int direction, int steps) const {
    const int64_t all = begin.back() - begin.front();
    const int last = member + direction * steps;  // beyond an end: once around, or nobody
    if (direction > 0) {
      if (last < count()) return begin[last + 1] - begin[member + 1];
      return begin.back() - begin[member + 1] + (wraps ? begin[last - count() + 1] - begin.front() : 0);
    }
    if (last >= 0) return begin[member] - begin[last];
    return begin[member] - begin.front() + (wraps ? all - (begin[last + count()] - begin.front()) : 0);
  }
  /// Rows of a margin of `rows` that remain when the members up to `steps` away have given theirs.
  int64_t missing(int member, int direction, int steps, int64_t rows) const {
    return rows - std::min(rows, rows_within(member, direction, steps));
  }
  /// Rows that a member takes from the one that is so many steps away.
  int64_t taken(int member, int direction, int steps, int64_t rows) const {
    return missing(member, direction, steps - 1, rows) - missing(member, direction, steps, rows);
  }
  /// The largest distance over which rows are taken.
  int reach(int direction, int64_t rows) const {
    int last = 0;
    for (int member = 0; member < count(); ++member) {
      const int64_t least = missing(member, direction, count() - 1, rows);
      while (missing(member, direction, last, rows) > least) ++last;
    }
    return last;
  }
};

/// `rows` rows from `first` on of a buffer that holds `extent` of them.
Piece rows_of(const Margins& margins, int64_t extent, int64_t first, int64_t rows) {
  return {first * margins.inner, margins.outer, rows * margins.inner, extent * margins.inner};
}

void write_number(double value, Type type, std::byte* to) {
  const auto write = [&](auto number) { std::memcpy(to, &number, sizeof number); };
  switch (type) {
    case Type::f32: return write(static_cast<float>(value));
    case Type::f64: return write(value);
    case Type::i32: return write(static_cast<int32_t>(value));
    case Type::i64: return write(static_cast<int64_t>(value));
    case Type::u8: return write(static_cast<uint8_t>(value));
    case Type::boolean: return write(value != 0);
    case Type::bf16: return write(Bfloat16(static_cast<float>(value)));
    case Type::f16: return write(Float16(static_cast<float>(value)));
  }
}

/// Rows [first, first + rows) of every outer index, beyond an end of the dim: each a copy of row `from`, or a number.
void fill_beyond(std::byte* data, const Margins& margins, int64_t extent, int64_t first, int64_t rows, int64_t from,
                 Type type) {
  const auto size = static_cast<int64_t>(size_of(type)), row = margins.inner * size;
  std::byte number[8] = {};
  if (margins.edge.kind == Edge::Kind::value) write_number(margins.edge.value, type, number);
  for (int64_t o = 0; o < margins.outer; ++o) {
    std::byte* const slab = data + o * extent * row;
    for (int64_t r = first; r < first + rows; ++r) {
      if (margins.edge.kind == Edge::Kind::clamp) std::memcpy(slab + r * row, slab + from * row, row);
      else
        for (int64_t i = 0; i < margins.inner; ++i) std::memcpy(slab + r * row + i * size, number, size);
    }
  }
}

/// One side of a part: `direction` -1 before it, 1 after it.
class Side {
 public:
  Side(std::byte* data, const Parts& parts, int me, int direction, const Margins& margins, Type type)
      : data_(data),
        parts_(parts),
        me_(me),
        direction_(direction),
        margins_(margins),
        type_(type),
        own_(parts.own(me)) {}

  int reach() const { return parts_.reach(direction_, rows()); }

  /// What fills it from the members at one distance.
  Call permute(const Group& group, Site site, int steps) const {
    int from = parts_.neighbour(me_, direction_ * steps), to = parts_.neighbour(me_, -direction_ * steps);
    const int64_t received = from < 0 ? 0 : parts_.taken(me_, direction_, steps, rows());
    const int64_t sent = to < 0 ? 0 : parts_.taken(to, direction_, steps, rows());
    if (received == 0) from = -1;
    if (sent == 0) to = -1;
    Boxes given, taken, got;
    if (to >= 0) given = {{rows_of(margins_, extent(), border(me_, sent), sent)}};
    if (from >= 0) {
      const int64_t theirs = margins_.before + parts_.own(from) + margins_.after;
      taken = {{rows_of(margins_, theirs, border(from, received), received)}};
      got = {{rows_of(margins_, extent(), place(filled(steps - 1), received), received)}};
    }
    return permute_call(group, site, data_, given, to, data_, taken, got, from, type_);
  }

  /// Fills what lies beyond the dim's ends, after all permutes.
  void fill() const {
    const int64_t before = filled(reach()), missing = rows() - before;
    const bool of_own = margins_.edge.kind != Edge::Kind::value;  // which one that owns nothing has not
    if (missing == 0 || (own_ == 0 && of_own)) return;
    if (parts_.wraps) {  // the other end is this member's own
      const auto size = static_cast<int64_t>(size_of(type_));
      const auto bytes = [&](Piece piece) {
        return Piece{piece.offset * size, piece.rows, piece.run * size, piece.stride * size};
      };
      const Piece from = bytes(rows_of(margins_, extent(), border(me_, missing), missing));
      copy_piece(data_, bytes(rows_of(margins_, extent(), place(before, missing), missing)), data_, from, 0,
                 from.bytes());
      return;
    }
    // The row at the end of the dim.
    const int64_t last = direction_ < 0 ? margins_.before - before : margins_.before + own_ + before - 1;
    fill_beyond(data_, margins_, extent(), place(before, missing), missing, last, type_);
  }

 private:
  int64_t rows() const { return direction_ < 0 ? margins_.before : margins_.after; }
  int64_t extent() const { return margins_.before + own_ + margins_.after; }
  /// Rows that come from members up to `steps` away.
  int64_t filled(int steps) const { return rows() - parts_.missing(me_, direction_, steps, rows()); }
  /// Where `count` rows that come next to those filled so far begin.
  int64_t place(int64_t filled, int64_t count) const {
    return direction_ < 0 ? margins_.before - filled - count : margins_.before + own_ + filled;
  }
  /// The rows of a member that lie at its side of the border.
  int64_t border(int member, int64_t count) const {
    return direction_ < 0 ? margins_.before + parts_.own(member) - count : margins_.before;
  }

  std::byte* data_;
  Parts parts_;
  int me_, direction_;
  Margins margins_;
  Type type_;
  int64_t own_;
};

}  // namespace

std::vector<Call> margins_calls(const Group& group, Site site, void* data, std::span<const int64_t> begin,
                                const Margins& margins, Type type) {
  if (static_cast<int>(begin.size()) != group.size() + 1)
    throw Failure(Cause::usage,
                  std::string("margins of '") + site.value + "' with as many parts as there are not members");
  const Parts parts{begin, margins.edge.kind == Edge::Kind::wrap};
  auto* const bytes = static_cast<std::byte*>(data);
  const Side before(bytes, parts, group.index, -1, margins, type), after(bytes, parts, group.index, 1, margins, type);
  // A permute for each distance, none of which needs what another brings; the ends when the last is there.
  std::vector<Call> calls;
  for (const Side* const side : {&before, &after})
    for (int steps = 1, reach = side->reach(); steps <= reach; ++steps)
      calls.push_back(side->permute(group, site, steps));
  if (calls.empty()) calls.push_back(own_call(group, site, type));  // on all members
  calls.back().own_bytes = 1;                                       // as good as nothing
  calls.back().then = [before, after](int64_t, int64_t) {
    before.fill();
    after.fill();
  };
  return calls;
}

Ticket exchange_margins_start(Rank& rank, const Group& group, Site site, void* data, std::span<const int64_t> begin,
                              const Margins& margins, Type type) {
  Ticket last;
  for (Call& call : margins_calls(group, site, data, begin, margins, type)) last = start(rank, group, std::move(call));
  return last;
}

void exchange_margins(Rank& rank, const Group& group, Site site, void* data, std::span<const int64_t> begin,
                      const Margins& margins, Type type) {
  wait(rank, exchange_margins_start(rank, group, site, data, begin, margins, type));
}

void fill_margins(void* data, int64_t size, const Margins& margins, Type type) {
  const int64_t begin[] = {0, size};
  const Parts parts{begin, margins.edge.kind == Edge::Kind::wrap};
  for (const int direction : {-1, 1}) Side(static_cast<std::byte*>(data), parts, 0, direction, margins, type).fill();
}

}  // namespace meshrt
