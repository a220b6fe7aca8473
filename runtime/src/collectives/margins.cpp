// Margins beside a part of a dim: every member takes rows from the members next to it, one distance after the other
// until the largest margin is full, then fills what lies beyond the dim's ends by itself.
#include <algorithm>
#include <cstring>

#include "meshrt/failure.h"
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
    return own(member) == 0 ? 0 : rows - std::min(rows, rows_within(member, direction, steps));
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
    case Type::bf16:
    case Type::f16: break;
  }
  throw Failure(Cause::usage, std::string("no margins hold numbers of ") + name_of(type));
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

/// One side: `direction` -1 before the own part, 1 after it.
void exchange_side(Rank* rank, const Group* group, Site site, std::byte* data, const Parts& parts, int me,
                   int direction, const Margins& margins, Type type) {
  const int64_t before = margins.before, own = parts.own(me), extent = before + own + margins.after;
  const int64_t rows = direction < 0 ? before : margins.after;
  int64_t filled = 0;
  // Where rows that come next to those filled so far begin; the rows of a member that lie at its side of the border.
  const auto place = [&](int64_t count) { return direction < 0 ? before - filled - count : before + own + filled; };
  const auto border = [&](int member, int64_t count) {
    return direction < 0 ? before + parts.own(member) - count : before;
  };
  const int reach = parts.reach(direction, rows);
  for (int steps = 1; steps <= reach; ++steps) {
    int from = parts.neighbour(me, direction * steps), to = parts.neighbour(me, -direction * steps);
    const int64_t received = from < 0 ? 0 : parts.taken(me, direction, steps, rows);
    const int64_t sent = to < 0 ? 0 : parts.taken(to, direction, steps, rows);
    if (received == 0) from = -1;
    if (sent == 0) to = -1;
    const int64_t theirs = from < 0 ? 0 : before + parts.own(from) + margins.after;
    permute_pieces(*rank, *group, site, data, rows_of(margins, extent, border(me, sent), sent), to, data,
                   from < 0 ? Piece{} : rows_of(margins, theirs, border(from, received), received),
                   rows_of(margins, extent, place(received), received), from, type);
    filled += received;
  }
  const int64_t missing = rows - filled;
  if (own == 0 || missing == 0) return;
  if (parts.wraps) {  // the other end is this member's own
    const auto size = static_cast<int64_t>(size_of(type));
    const auto bytes = [&](Piece piece) {
      return Piece{piece.offset * size, piece.rows, piece.run * size, piece.stride * size};
    };
    const Piece from = bytes(rows_of(margins, extent, border(me, missing), missing));
    copy_piece(data, bytes(rows_of(margins, extent, place(missing), missing)), data, from, 0, from.bytes());
    return;
  }
  const int64_t last = direction < 0 ? before - filled : before + own + filled - 1;  // the row at the end of the dim
  fill_beyond(data, margins, extent, place(missing), missing, last, type);
}

}  // namespace

void exchange_margins(Rank& rank, const Group& group, Site site, void* data, std::span<const int64_t> begin,
                      const Margins& margins, Type type) {
  if (static_cast<int>(begin.size()) != group.size() + 1)
    throw Failure(Cause::usage,
                  std::string("margins of '") + site.value + "' with as many parts as there are not members");
  const Parts parts{begin, margins.edge.kind == Edge::Kind::wrap};
  for (const int direction : {-1, 1})
    exchange_side(&rank, &group, site, static_cast<std::byte*>(data), parts, group.index, direction, margins, type);
}

void fill_margins(void* data, int64_t size, const Margins& margins, Type type) {
  const int64_t begin[] = {0, size};
  const Parts parts{begin, margins.edge.kind == Edge::Kind::wrap};
  for (const int direction : {-1, 1})
    exchange_side(nullptr, nullptr, {}, static_cast<std::byte*>(data), parts, 0, direction, margins, type);
}

}  // namespace meshrt
