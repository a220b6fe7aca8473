#include "transport/piece.h"

#include <cstring>

namespace meshrt {

namespace {

// Copies `rows` runs of a few bytes whose number the compiler knows: a load and a store each, no call.
template <int64_t run>
void copy_runs(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride, int64_t rows) {
  for (; rows > 0; --rows, to += to_stride, from += from_stride) std::memcpy(to, from, run);
}

void copy_runs(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride, int64_t run,
               int64_t rows) {
  // A member's part may be in its place already, and others may be reading it.
  if (to == from && (rows == 1 || to_stride == from_stride)) return;
  switch (run) {
    case 1: return copy_runs<1>(to, to_stride, from, from_stride, rows);
    case 2: return copy_runs<2>(to, to_stride, from, from_stride, rows);
    case 4: return copy_runs<4>(to, to_stride, from, from_stride, rows);
    case 8: return copy_runs<8>(to, to_stride, from, from_stride, rows);
    case 16: return copy_runs<16>(to, to_stride, from, from_stride, rows);
    case 32: return copy_runs<32>(to, to_stride, from, from_stride, rows);
    default:
      for (; rows > 0; --rows, to += to_stride, from += from_stride) std::memcpy(to, from, run);
  }
}

// Splits bytes [begin, end) of a piece into the end of a run, whole runs, and the beginning of one:
// visit(bytes before since begin, place, bytes of a run, runs).
template <class Visit>
void each_block(const Piece& piece, int64_t begin, int64_t end, Visit visit) {
  if (begin >= end) return;
  const int64_t row = begin / piece.run, within = begin % piece.run;
  int64_t at = begin, place = piece.offset + row * piece.stride;
  if (within > 0) {
    const int64_t length = std::min(piece.run - within, end - at);
    visit(0, place + within, length, 1);
    at += length;
    place += piece.stride;
  }
  if (const int64_t runs = (end - at) / piece.run; runs > 0) {
    visit(at - begin, place, piece.run, runs);
    at += runs * piece.run;
    place += runs * piece.stride;
  }
  if (at < end) visit(at - begin, place, end - at, 1);
}

}  // namespace

void pack_piece(std::byte* to, const std::byte* from, const Piece& from_piece, int64_t begin, int64_t end) {
  each_block(from_piece, begin, end, [&](int64_t done, int64_t place, int64_t run, int64_t runs) {
    copy_runs(to + done, run, from + place, from_piece.stride, run, runs);
  });
}

void unpack_piece(std::byte* to, const Piece& to_piece, const std::byte* from, int64_t begin, int64_t end) {
  each_block(to_piece, begin, end, [&](int64_t done, int64_t place, int64_t run, int64_t runs) {
    copy_runs(to + place, to_piece.stride, from + done, run, run, runs);
  });
}

void copy_piece(std::byte* to, const Piece& to_piece, const std::byte* from, const Piece& from_piece, int64_t begin,
                int64_t end) {
  // Walks the side with the longer runs; the other side is packed or unpacked within each of them.
  if (to_piece.run > from_piece.run)
    each_stretch(to_piece, begin, end, [&](int64_t done, int64_t place, int64_t length) {
      pack_piece(to + place, from, from_piece, begin + done, begin + done + length);
    });
  else
    each_stretch(from_piece, begin, end, [&](int64_t done, int64_t place, int64_t length) {
      unpack_piece(to, to_piece, from + place, begin + done, begin + done + length);
    });
}

}  // namespace meshrt
