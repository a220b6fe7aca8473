#include "transport/call.h"

#include <algorithm>
#include <cstring>

namespace meshrt {

namespace {

int64_t extent(std::span<const int64_t> begin) { return begin.back() - begin.front(); }
int64_t part(std::span<const int64_t> begin, int index) { return begin[index + 1] - begin[index]; }
int64_t at(std::span<const int64_t> begin, int index) { return begin[index] - begin[0]; }
int largest_part(std::span<const int64_t> begin) {
  int largest = 0;
  for (int i = 1; i + 1 < static_cast<int>(begin.size()); ++i)
    if (part(begin, i) > part(begin, largest)) largest = i;
  return largest;
}

Piece contiguous(int64_t bytes) { return {0, 1, bytes, bytes}; }

// Member k's part of the middle extent of [outer, all, inner].
Piece block(int64_t outer, std::span<const int64_t> begin, int64_t inner, int k) {
  return {at(begin, k) * inner, outer, part(begin, k) * inner, extent(begin) * inner};
}

// The same where it lies in the whole, and by itself.
Piece in_whole(const Item& item, int k) {
  Piece piece = block(item.blocks.outer, item.blocks.begin, item.blocks.inner, k);
  if (item.whole_row > 0) piece.stride = item.whole_row;
  return piece;
}
Piece alone(const Item& item, int k) {
  const Blocks& b = item.blocks;
  const int64_t run = part(b.begin, k) * b.inner;
  return item.part_row > 0 ? Piece{0, b.outer, run, item.part_row} : contiguous(b.outer * run);
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

}  // namespace

Piece source_piece(const Call& call, const Item& item, int from, int to) {
  switch (call.kind) {
    case Kind::reduce_scatter: return scaled(in_whole(item, to), call.type);
    case Kind::all_gather: return scaled(alone(item, from), call.type);
    case Kind::all_to_all:
      return call.exchange.gathers_first ? scaled(exchange_piece(call.exchange, from, to, true), call.type)
                                         : scaled(exchange_piece(call.exchange, to, from, false), call.type);
    case Kind::broadcast: return from == call.root && to != from ? scaled(contiguous(item.count), call.type) : Piece{};
    case Kind::permute:
    case Kind::message:
    case Kind::all_reduce:
    case Kind::barrier: return {};
  }
  return {};
}

Piece destination_piece(const Call& call, const Item& item, int from, int to) {
  switch (call.kind) {
    case Kind::reduce_scatter: return scaled(alone(item, to), call.type);
    case Kind::all_gather: return scaled(in_whole(item, from), call.type);
    case Kind::all_to_all:
      return call.exchange.gathers_first ? scaled(exchange_piece(call.exchange, from, to, false), call.type)
                                         : scaled(exchange_piece(call.exchange, to, from, true), call.type);
    case Kind::broadcast: return source_piece(call, item, from, to);
    case Kind::permute:
    case Kind::message:
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
  // A piece depends on one of its two members alone, or is the product of what depends on either.
  int64_t largest = 0;
  switch (call.kind) {
    case Kind::reduce_scatter:
      for (int to = 0; to < call.members; ++to) largest = std::max(largest, piece_bytes(call, call.me, to));
      return largest;
    case Kind::all_gather:
      for (int from = 0; from < call.members; ++from) largest = std::max(largest, piece_bytes(call, from, call.me));
      return largest;
    case Kind::all_to_all: {
      const Exchange& e = call.exchange;
      const int a = largest_part(e.first), b = largest_part(e.second);
      return e.gathers_first ? piece_bytes(call, a, b) : piece_bytes(call, b, a);
    }
    case Kind::broadcast: return piece_bytes(call, call.root, call.root == 0 ? 1 : 0);
    case Kind::all_reduce:
    case Kind::permute:
    case Kind::message:
    case Kind::barrier: break;
  }
  return largest;
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
    case Kind::message: return end_of(call.sent);
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
    case Kind::all_gather: return others * call.bytes;
    case Kind::reduce_scatter:
    case Kind::all_to_all: return call.bytes - piece_bytes(call, call.me, call.me);
    case Kind::permute:
    case Kind::message: return call.to == call.me ? 0 : bytes_of(call.sent);
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
  if (call.kind == Kind::permute)
    return copy_boxes(call.only.destination, call.received, call.only.source, call.taken, 0, bytes_of(call.received));
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

}  // namespace meshrt
