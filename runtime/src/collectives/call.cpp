#include "collectives/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "collectives/site_names.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

int64_t extent(std::span<const int64_t> begin) { return begin.back() - begin.front(); }
int64_t part(std::span<const int64_t> begin, int index) { return begin[index + 1] - begin[index]; }
int64_t at(std::span<const int64_t> begin, int index) { return begin[index] - begin[0]; }

Piece contiguous(int64_t bytes) { return {0, 1, bytes, bytes}; }

// Member k's part of the middle extent of [outer, all, inner].
Piece block(int64_t outer, std::span<const int64_t> begin, int64_t inner, int k) {
  return {at(begin, k) * inner, outer, part(begin, k) * inner, extent(begin) * inner};
}

// Pieces are built in elements, then scaled to bytes.
Piece scaled(Piece piece, Type type) {
  const auto size = static_cast<int64_t>(size_of(type));
  return {piece.offset * size, piece.rows, piece.run * size, piece.stride * size};
}

// The side of an all-to-all that holds one member's part of A and B whole, or the reverse: the piece that pairs `a`'s
// part of A with `b`'s part of B, in the buffer of the member that holds `a`'s part of A (holds_first) or `b`'s part of
// B.
Piece exchange_piece(const Exchange& e, int a, int b, bool holds_first) {
  if (holds_first) return block(e.outer * part(e.first, a) * e.middle, e.second, e.inner, b);
  return block(e.outer, e.first, e.middle * part(e.second, b) * e.inner, a);
}

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccd;
}

uint64_t mix(uint64_t hash, std::span<const int64_t> begin) {
  for (const int64_t b : begin) hash = mix(hash, static_cast<uint64_t>(b - begin[0]));
  return hash;
}

uint64_t shape_of(const Call& call) {
  uint64_t hash = 1;
  switch (call.kind) {
    case Kind::reduce_scatter:
    case Kind::all_gather:
      for (const Item& item : call.items())
        hash = mix(mix(mix(hash, item.blocks.begin), item.blocks.outer), item.blocks.inner);
      return hash;
    case Kind::all_to_all: {
      const Exchange& e = call.exchange;
      return mix(mix(mix(mix(mix(2 + e.gathers_first, e.first), e.second), e.outer), e.middle), e.inner);
    }
    case Kind::broadcast: return call.root;
    case Kind::permute: return static_cast<uint64_t>(call.to + 1) << 32 | static_cast<uint32_t>(call.from + 1);
    case Kind::all_reduce:
      if (call.several.empty()) return 0;
      for (const Item& item : call.items()) hash = mix(hash, static_cast<uint64_t>(item.count));
      return hash;
    case Kind::barrier: return 0;
  }
  return 0;
}

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::all_reduce: return "all_reduce";
    case Kind::reduce_scatter: return "reduce_scatter";
    case Kind::all_gather: return "all_gather";
    case Kind::all_to_all: return "all_to_all";
    case Kind::broadcast: return "broadcast";
    case Kind::permute: return "permute";
    case Kind::barrier: return "barrier";
  }
  return "?";
}

Piece source_piece(const Call& call, const Item& item, int from, int to) {
  const Blocks& b = item.blocks;
  switch (call.kind) {
    case Kind::reduce_scatter: return scaled(block(b.outer, b.begin, b.inner, to), call.type);
    case Kind::all_gather: return scaled(contiguous(b.outer * part(b.begin, from) * b.inner), call.type);
    case Kind::all_to_all:
      return call.exchange.gathers_first ? scaled(exchange_piece(call.exchange, from, to, true), call.type)
                                         : scaled(exchange_piece(call.exchange, to, from, false), call.type);
    case Kind::broadcast: return from == call.root && to != from ? scaled(contiguous(item.count), call.type) : Piece{};
    case Kind::permute:
      if (from == call.me && to == call.to) return scaled(call.sent, call.type);
      return to == call.me && from == call.from ? scaled(call.taken, call.type) : Piece{};
    case Kind::all_reduce:
    case Kind::barrier: return {};
  }
  return {};
}

Piece destination_piece(const Call& call, const Item& item, int from, int to) {
  const Blocks& b = item.blocks;
  switch (call.kind) {
    case Kind::reduce_scatter: return scaled(contiguous(b.outer * part(b.begin, to) * b.inner), call.type);
    case Kind::all_gather: return scaled(block(b.outer, b.begin, b.inner, from), call.type);
    case Kind::all_to_all:
      return call.exchange.gathers_first ? scaled(exchange_piece(call.exchange, from, to, false), call.type)
                                         : scaled(exchange_piece(call.exchange, to, from, true), call.type);
    case Kind::broadcast: return source_piece(call, item, from, to);
    case Kind::permute: return to == call.me && from == call.from ? scaled(call.received, call.type) : Piece{};
    case Kind::all_reduce:
    case Kind::barrier: return {};
  }
  return {};
}

int64_t piece_bytes(const Call& call, int from, int to) {
  int64_t bytes = 0;
  for (const Item& item : call.items()) bytes += source_piece(call, item, from, to).bytes();
  return bytes;
}

int64_t largest_piece(const Call& call) {
  int64_t largest = 0;
  for (int from = 0; from < call.members; ++from)
    for (int to = 0; to < call.members; ++to) largest = std::max(largest, piece_bytes(call, from, to));
  return largest;
}

int64_t source_bytes(const Call& call) {
  int64_t bytes = 0;
  for (const Item& item : call.items()) bytes += source_bytes(call, item);
  return bytes;
}

int64_t source_bytes(const Call& call, const Item& item) {
  const auto size = static_cast<int64_t>(size_of(call.type));
  switch (call.kind) {
    case Kind::all_gather: return source_piece(call, item, call.me, call.me).bytes();
    case Kind::all_to_all: {
      const Exchange& e = call.exchange;
      const int64_t a = e.gathers_first ? part(e.first, call.me) : extent(e.first);
      const int64_t b = e.gathers_first ? extent(e.second) : part(e.second, call.me);
      return e.outer * a * e.middle * b * e.inner * size;
    }
    case Kind::broadcast: return call.me == call.root ? item.count * size : 0;
    case Kind::permute:
      return item.count > 0 ? (call.sent.offset + (call.sent.rows - 1) * call.sent.stride + call.sent.run) * size : 0;
    case Kind::all_reduce:
    case Kind::reduce_scatter: return item.count * size;
    case Kind::barrier: return 0;
  }
  return 0;
}

int64_t sent_bytes(const Call& call) {
  const int64_t others = call.members - 1, whole = call.count() * static_cast<int64_t>(size_of(call.type));
  switch (call.kind) {
    case Kind::all_reduce: return 2 * others * whole / call.members;
    case Kind::broadcast: return others * whole / call.members;
    case Kind::all_gather: return others * source_bytes(call);
    case Kind::reduce_scatter:
    case Kind::all_to_all: return source_bytes(call) - piece_bytes(call, call.me, call.me);
    case Kind::permute: return call.to == call.me ? 0 : piece_bytes(call, call.me, call.to);
    case Kind::barrier: return 0;
  }
  return 0;
}

int64_t slice_begin(int64_t bytes, int index, int members) {
  constexpr int64_t line = 64;
  return std::min(bytes, part_begin((bytes + line - 1) / line, index, members) * line);
}

void run_alone(const Call& call) {
  if (call.kind == Kind::all_reduce || call.kind == Kind::broadcast) return;
  for (const Item& item : call.items()) {
    const Piece from = source_piece(call, item, 0, 0);
    copy_piece(item.destination, destination_piece(call, item, 0, 0), item.source, from, 0, from.bytes());
  }
}

void pack_values(const Call& call, std::byte* to, int64_t begin, int64_t end) {
  each_item(
      call, begin, end, [&](const Item& item) { return source_bytes(call, item); },
      [&](const Item& item, int64_t first, int64_t last, int64_t done) {
        std::memcpy(to + done, item.source + first, last - first);
      });
}

void unpack_values(const Call& call, const std::byte* from, int64_t begin, int64_t end) {
  each_item(
      call, begin, end, [&](const Item& item) { return source_bytes(call, item); },
      [&](const Item& item, int64_t first, int64_t last, int64_t done) {
        std::memcpy(item.destination + first, from + done, last - first);
      });
}

void pack_pieces(const Call& call, std::byte* packed, int to, int64_t begin, int64_t end) {
  each_item(
      call, begin, end, [&](const Item& item) { return source_piece(call, item, call.me, to).bytes(); },
      [&](const Item& item, int64_t first, int64_t last, int64_t done) {
        pack_piece(packed + done, item.source, source_piece(call, item, call.me, to), first, last);
      });
}

void unpack_pieces(const Call& call, const std::byte* packed, int from, int64_t begin, int64_t end) {
  each_item(
      call, begin, end, [&](const Item& item) { return destination_piece(call, item, from, call.me).bytes(); },
      [&](const Item& item, int64_t first, int64_t last, int64_t done) {
        unpack_piece(item.destination, destination_piece(call, item, from, call.me), packed + done, first, last);
      });
}

Fingerprint fingerprint(const Group& group, const Call& call) {
  uint64_t axes = 0;
  for (const Axis& axis : group.axes) axes = mix(mix(axes, axis.size), axis.stride);
  Fingerprint print;
  print.sequence = call.sequence;
  print.site = call.site.id;
  print.kind = call.kind;
  print.type = call.type;
  print.reduce = call.reduce;
  print.members = static_cast<uint8_t>(group.size());
  print.axes = static_cast<uint32_t>(axes >> 32);
  print.count = call.count();
  print.shape = shape_of(call);
  return print;
}

ValueName value_name(Site site) {
  ValueName name;
  std::strncpy(name.text, site.value, sizeof name.text - 1);
  return name;
}

void check_match(const Group& group, const Call& call, const Fingerprint& mine, int index, const Fingerprint& theirs,
                 const ValueName& their_value) {
  bool fits = theirs.kind == mine.kind && theirs.type == mine.type && theirs.axes == mine.axes;
  if (fits && mine.kind == Kind::permute) {
    const int their_to = static_cast<int>(theirs.shape >> 32) - 1,
              their_from = static_cast<int>(theirs.shape & 0xffffffff) - 1;
    if (index == call.from) fits = their_to == call.me && theirs.count == call.receive_count;
    if (index == call.to) fits = fits && their_from == call.me;
  } else if (fits) {
    fits = std::memcmp(&mine, &theirs, sizeof mine) == 0;
  }
  if (fits) return;
  std::string detail;
  if (mine.kind == Kind::permute && theirs.kind == Kind::permute)
    detail = fmt::format("; rank {} expects {} elements from member {} and sends to member {}", group.members[call.me],
                         call.receive_count, call.from, call.to);
  else if (theirs.kind == mine.kind && theirs.count == mine.count && theirs.type == mine.type &&
           theirs.shape != mine.shape)
    detail = mine.kind == Kind::broadcast ? "; their roots differ" : "; their parts differ";
  throw Failure(
      Cause::mismatch,
      fmt::format("ranks {} and {} diverge at call {} of the group of ranks {}: rank {} is at {}, rank {} at {}{}. "
                  "All ranks of a group must make the same calls in the same order",
                  group.members[call.me], group.members[index], call.sequence, fmt::join(group.members, " "),
                  group.members[call.me], describe(call), group.members[index], describe(theirs, their_value.text),
                  detail));
}

namespace {

std::string waiting(const Group& group, const Call& call, const std::string& how, int member) {
  return fmt::format("rank {} {} for rank {} in call {} of the group of ranks {}, {}", group.members[call.me], how,
                     group.members[member], call.sequence, fmt::join(group.members, " "), describe(call));
}

}  // namespace

std::string late_message(const Group& group, const Call& call, int member, std::chrono::nanoseconds waited) {
  return waiting(group, call, fmt::format("waited {:g} s", std::chrono::duration<double>(waited).count()), member);
}

std::string ended_message(const Group& group, const Call& call, int member) {
  return fmt::format("{}, but rank {} has ended without making it", waiting(group, call, "waits", member),
                     group.members[member]);
}

std::string describe(const Fingerprint& call, const char* value) {
  std::string text = name_of(call.kind);
  if (*value) text += fmt::format(" of '{}'", value);
  if (call.kind != Kind::barrier) {
    text += fmt::format(" ({} x {}", call.count, name_of(call.type));
    if (call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter)
      text += fmt::format(", {}", name_of(call.reduce));
    text += ")";
  }
  if (call.site >= 0) text += " at " + site_name(call.site);
  return text;
}

std::string describe(const Call& call) {
  Fingerprint print;
  print.kind = call.kind;
  print.type = call.type;
  print.reduce = call.reduce;
  print.count = call.count();
  print.site = call.site.id;
  return describe(print, call.site.value);
}

}  // namespace meshrt
